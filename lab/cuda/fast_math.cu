// Rung `fast-math`: the kernel of `float4`, compiled with --use_fast_math (lab/CMakeLists.txt). expf becomes the GPU's
// exponential instruction, divisions are approximate, and denormals are flushed to zero. The ladder's tables show the
// resulting error and time.
#include "lab/cuda/float4_kernel.cuh"
#include "lab/cuda/runs.h"

namespace strobe::lab {

Launches launch_fast_math(const Tensors& tensors, cudaStream_t stream) { return launch(tensors, stream); }

Split run_fast_math(const RungProblem& problem, float* o) {
  return run_in_turn(problem, o, RowPitch::pitched, [](const Tensors& t) { return launch(t, nullptr); });
}

}  // namespace strobe::lab
