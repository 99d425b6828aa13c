// Implements launch_without(). Compiled with --use_fast_math, like rung `fast-math`.
#include "lab/cuda/ablation_kernel.cuh"

namespace strobe::lab {

Launches launch_without(Idea idea, const Tensors& t, cudaStream_t stream) {
  switch (idea) {
    case Idea::padded: return launch_kernel_without<Idea::padded>(t, stream);
    case Idea::unrolled: return launch_kernel_without<Idea::unrolled>(t, stream);
    case Idea::coalesced: return launch_kernel_without<Idea::coalesced>(t, stream);
    case Idea::registers: return launch_kernel_without<Idea::registers>(t, stream);
    case Idea::q_stationary: return launch_kernel_without<Idea::q_stationary>(t, stream);
    case Idea::float4: return launch_kernel_without<Idea::float4>(t, stream);
    default: return launch_kernel_without<Idea::none>(t, stream);
  }
}

}  // namespace strobe::lab
