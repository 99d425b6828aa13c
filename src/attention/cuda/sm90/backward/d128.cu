// Hopper backward kernels for head dimension 128, without and with dropout; launch.cpp calls them.
#include "attention/cuda/sm90/backward/launch_kernels.cuh"

namespace strobe::cuda::sm90 {
template bool launch_backward_kernel<128>(const BackwardLaunch&, const BackwardArgs&, std::int64_t);
template bool launch_backward_kernel<128>(const BackwardLaunch&, const DroppingBackwardArgs&, std::int64_t);
}  // namespace strobe::cuda::sm90
