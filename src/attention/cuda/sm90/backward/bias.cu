// Hopper backward kernel with an additive bias; launch.cpp calls it.
#include "attention/cuda/sm90/backward/launch_kernels.cuh"

namespace strobe::cuda::sm90 {
template bool launch_backward_kernel<128>(const BackwardLaunch&, const BiasBackwardArgs&, std::int64_t);
}  // namespace strobe::cuda::sm90
