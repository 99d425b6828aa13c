// Hopper backward kernels for head dimension 256, in clusters of two blocks, without and with dropout; launch.cpp calls
// them.
#include "attention/cuda/sm90/backward/launch_kernels.cuh"

namespace strobe::cuda::sm90 {
template bool launch_backward_kernel<256>(const BackwardLaunch&, const BackwardArgs&, std::int64_t);
template bool launch_backward_kernel<256>(const BackwardLaunch&, const DroppingBackwardArgs&, std::int64_t);
}  // namespace strobe::cuda::sm90
