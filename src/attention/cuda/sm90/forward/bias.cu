// Hopper forward kernels with an additive bias; launch.cpp calls them.
#include "attention/cuda/sm90/forward/launch_tiles.cuh"

namespace strobe::cuda::sm90 {
template void launch_bias_tiles<64>(const ForwardLaunch&, const BiasForwardArgs&);
template void launch_bias_tiles<128>(const ForwardLaunch&, const BiasForwardArgs&);
}  // namespace strobe::cuda::sm90
