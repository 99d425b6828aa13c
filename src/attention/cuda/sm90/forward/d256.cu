// Hopper forward kernels for head dimension 256, without and with dropout; launch.cpp calls them.
#include "attention/cuda/sm90/forward/launch_tiles.cuh"

namespace strobe::cuda::sm90 {
template void launch_forward_tiles<256, 256>(const ForwardLaunch&, const ForwardArgs&);
template void launch_dropping_tiles<256>(const ForwardLaunch&, const DroppingForwardArgs&);
}  // namespace strobe::cuda::sm90
