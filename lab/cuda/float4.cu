// Rung `float4`: four floats per load. The kernel is in float4_kernel.cuh, because later rungs use it too.
#include "lab/cuda/float4_kernel.cuh"
#include "lab/cuda/runs.h"

namespace strobe::lab {

Split run_float4(const RungProblem& problem, float* o) {
  return run_in_turn(problem, o, RowPitch::pitched, [](const Tensors& t) { return launch(t, nullptr); });
}

}  // namespace strobe::lab
