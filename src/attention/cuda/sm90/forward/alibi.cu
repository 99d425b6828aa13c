// Hopper forward kernels with ALiBi; launch.cpp calls them.
#include "attention/cuda/sm90/forward/launch_tiles.cuh"

namespace strobe::cuda::sm90 {
template void launch_alibi_tiles<64>(const ForwardLaunch&, const AlibiForwardArgs&);
template void launch_alibi_tiles<128>(const ForwardLaunch&, const AlibiForwardArgs&);
template void launch_alibi_tiles<256>(const ForwardLaunch&, const AlibiForwardArgs&);
}  // namespace strobe::cuda::sm90
