// Implements launch_without_fast_math(): the kernel with all other ideas, compiled without --use_fast_math.
#include "lab/cuda/ablation_kernel.cuh"

namespace strobe::lab {

Launches launch_without_fast_math(const Tensors& t, cudaStream_t stream) {
  return launch_kernel_without<Idea::none>(t, stream);
}

}  // namespace strobe::lab
