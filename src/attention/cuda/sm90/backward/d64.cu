// Hopper backward kernels for head dimension 64; launch.cpp calls them.
#include "attention/cuda/sm90/backward/launch_kernels.cuh"

namespace strobe::cuda::sm90 {
template bool launch_backward_kernel<64>(const BackwardLaunch&, const BackwardArgs&, std::int64_t);
}
