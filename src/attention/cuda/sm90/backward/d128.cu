#include "attention/cuda/sm90/backward/launch_kernels.cuh"

namespace strobe::cuda::sm90 {
template void launch_backward_kernels<128>(const BackwardLaunch&, const RowFactsArgs&, const BackwardArgs&);
}
