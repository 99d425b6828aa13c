// Rung `float4`: four floats a load. The kernel, and why, is in float4_kernel.cuh, which the next rung shares.
#include "lab/cuda/float4_kernel.cuh"
#include "lab/cuda/runs.h"

namespace strobe::lab {

Split run_float4(const Problem& problem, float* o) {
  return run_in_turn(problem, o, Layout::pitched, [](const Tensors& t) { launch(t, nullptr); });
}

}  // namespace strobe::lab
