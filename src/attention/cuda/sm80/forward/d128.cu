// Forward for head dimensions padded to 128.
#include "attention/cuda/sm80/forward/launch_tiles.cuh"

namespace strobe::cuda::sm80 {
template void launch_forward_tiles<128>(const ForwardLaunch& launch);
}
