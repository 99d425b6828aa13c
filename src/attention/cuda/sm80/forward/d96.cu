// Forward for head dimensions padded to 96.
#include "attention/cuda/sm80/forward/launch_tiles.cuh"

namespace strobe::cuda::sm80 {
template void launch_forward_tiles<96>(const ForwardLaunch& launch);
}
