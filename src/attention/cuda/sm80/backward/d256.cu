// Backward for head dimensions padded to 256.
#include "attention/cuda/sm80/backward/launch_tiles.cuh"

namespace strobe::cuda::sm80 {
template void launch_backward_tiles<256>(const BackwardLaunch& launch);
template void launch_row_sums<256>(const BackwardLaunch& launch);
template void launch_dbias<256>(const BackwardLaunch& launch);
}  // namespace strobe::cuda::sm80
