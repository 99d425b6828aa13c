// Stubs of a build without CUDA: GPU rungs have a name and no function.
#include "lab/experiments.h"

namespace strobe::lab {

Run gpu_run(std::string_view) { return nullptr; }
std::span<const Variant> ablation() { return {}; }
std::span<const Tiles> tiles() { return {}; }

}  // namespace strobe::lab
