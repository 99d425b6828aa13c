#include "attention/cuda/sm90/backward/launch_kernels.cuh"

namespace strobe::cuda::sm90 {
template void launch_backward_kernel<128>(const BackwardLaunch&, BackwardArgs&);
}
