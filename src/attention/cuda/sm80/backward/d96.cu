// Backward for head dimensions padded to 96.
#include "attention/cuda/sm80/backward/launch_tiles.cuh"

namespace strobe::cuda::sm80 {
template void launch_backward_tiles<96>(const BackwardLaunch& launch);
template void launch_row_sums<96>(const BackwardLaunch& launch);
template void launch_dbias<96>(const BackwardLaunch& launch);
}  // namespace strobe::cuda::sm80
