// Hopper forward kernels for head dimension 96; launch.cpp calls them.
#include "attention/cuda/sm90/forward/launch_tiles.cuh"

namespace strobe::cuda::sm90 {
template void launch_forward_tiles<96, 96>(const ForwardLaunch&, const ForwardArgs&);
}
