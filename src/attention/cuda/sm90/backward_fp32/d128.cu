#include "attention/cuda/sm90/backward_fp32/launch_kernels.cuh"

namespace strobe::cuda::sm90 {
template void launch_fp32_backward_kernels<128>(const BackwardLaunch&, const Fp32SplitArgs&);
}
