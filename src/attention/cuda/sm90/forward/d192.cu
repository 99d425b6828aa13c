// Hopper forward kernels for head dimension 192 with dv 128 and dv 192; launch.cpp calls them.
#include "attention/cuda/sm90/forward/launch_tiles.cuh"

namespace strobe::cuda::sm90 {
template void launch_forward_tiles<192, 128>(const ForwardLaunch&, const ForwardArgs&);
template void launch_forward_tiles<192, 192>(const ForwardLaunch&, const ForwardArgs&);
}  // namespace strobe::cuda::sm90
