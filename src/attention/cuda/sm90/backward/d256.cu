// Hopper backward kernel for head dimension 256, in clusters of two blocks; launch.cpp calls it.
#include "attention/cuda/sm90/backward/launch_kernels.cuh"

namespace strobe::cuda::sm90 {
template bool launch_backward_kernel<256>(const BackwardLaunch&, const BackwardArgs&, std::int64_t);
}
