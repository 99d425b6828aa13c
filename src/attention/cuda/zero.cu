// Zeros on the caller's stream: a memset node where a graph is captured.
#include "attention/cuda/zero.h"

#include "device/cuda/check.h"

namespace strobe::cuda {

void zero_async(void* data, std::size_t bytes, void* stream) {
  if (bytes > 0) STROBE_CUDA_CHECK(cudaMemsetAsync(data, 0, bytes, static_cast<cudaStream_t>(stream)));
}

}  // namespace strobe::cuda
