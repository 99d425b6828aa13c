#include "attention/cuda/sm90/forward_fp32/launch_tiles.cuh"

namespace strobe::cuda::sm90 {
template void launch_fp32_forward_tiles<64>(const Fp32ForwardLaunch&, const Fp32ForwardArgs&);
}
