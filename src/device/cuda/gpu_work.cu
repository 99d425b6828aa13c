// Implements gpu_work.h: reports pending errors and sets strided tensors to zero.
#include "device/gpu_work.h"

#include <algorithm>
#include <cstdint>

#include "device/cuda/check.h"
#include "device/cuda/driver.h"

namespace strobe {

namespace {

template <class Element>
__global__ void clear_elements(GpuElements at, std::int64_t count) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; n < count; n += step) {
    std::int64_t rest = n;
    std::int64_t offset = 0;
    for (int i = 3; i >= 0; --i) {
      offset += rest % at.shape[i] * at.stride[i];
      rest /= at.shape[i];
    }
    static_cast<Element*>(at.data)[offset] = Element{};
  }
}

}  // namespace

void begin_gpu_work() {
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) cuda::fail_earlier(status);
  cuda::enter_context();
}

void clear_on_gpu(const GpuElements& elements, void* stream) {
  std::int64_t count = 1;
  for (const std::int64_t size : elements.shape) count *= size;
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>((count + 255) / 256, 65536));
  const auto on = static_cast<cudaStream_t>(stream);
  if (elements.bytes == 4) {
    clear_elements<std::uint32_t><<<blocks, 256, 0, on>>>(elements, count);
  } else {
    clear_elements<std::uint16_t><<<blocks, 256, 0, on>>>(elements, count);
  }
  cuda::check_launch("clear_on_gpu");
}

}  // namespace strobe
