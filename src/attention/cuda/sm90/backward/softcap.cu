// Hopper backward kernels with a softcap; launch.cpp calls them.
#include "attention/cuda/sm90/backward/launch_kernels.cuh"

namespace strobe::cuda::sm90 {
template bool launch_backward_kernel<64>(const BackwardLaunch&, const CapBackwardArgs&, std::int64_t);
template bool launch_backward_kernel<128>(const BackwardLaunch&, const CapBackwardArgs&, std::int64_t);
template bool launch_backward_kernel<256>(const BackwardLaunch&, const CapBackwardArgs&, std::int64_t);
}  // namespace strobe::cuda::sm90
