// A build without CUDA knows the GPU's rungs by name only.
#include "lab/experiments.h"

namespace strobe::lab {

Run gpu_run(std::string_view) { return nullptr; }
std::span<const Variant> ablation() { return {}; }
std::span<const Tiles> tiles() { return {}; }

}  // namespace strobe::lab
