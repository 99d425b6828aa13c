// Replaces cuda/ in a build without CUDA: GPU rungs have a name but no function, and there are no experiments.
#include "lab/experiments.h"

namespace strobe::lab {

Run gpu_run(std::string_view) { return nullptr; }
std::span<const Variant> ablation() { return {}; }
std::span<const Tiles> tiles() { return {}; }

}  // namespace strobe::lab
