// Rung `fast-math`: the kernel of `float4` to the letter, compiled with --use_fast_math (lab/CMakeLists.txt): expf
// becomes the chip's own exponential, divisions are approximate, denormals are zero. The error stands beside the time.
#include "lab/cuda/float4_kernel.cuh"
#include "lab/cuda/runs.h"

namespace strobe::lab {

void launch_fast_math(const Tensors& tensors, cudaStream_t stream) { launch(tensors, stream); }

Split run_fast_math(const Problem& problem, float* o) {
  return run_in_turn(problem, o, Layout::pitched, [](const Tensors& t) { launch(t, nullptr); });
}

}  // namespace strobe::lab
