// Implements the functions of gpu_facts.h and device_info.h that do not need CUDA.
#include "device/gpu_facts.h"

#include <algorithm>
#include <cstdlib>

#include "core/fail.h"
#include "device/device_info.h"

namespace strobe {

GpuInfo current_gpu_info() {
  const GpuInventory inventory = gpu_inventory();
  const auto index = static_cast<std::size_t>(current_gpu().index);
  return index < inventory.gpus.size() ? inventory.gpus[index] : GpuInfo{};
}

std::size_t limited_shared_bytes(std::size_t bytes, const char* kilobytes) {
  if (!kilobytes || !*kilobytes) return bytes;
  char* end = nullptr;
  const long long limit = std::strtoll(kilobytes, &end, 10);
  if (*end != '\0' || limit < 1 || limit > 1 << 20) {
    fail(ErrorCode::invalid_argument,
         "cuda: STROBE_CUDA_SHARED_KB is '{}'; it must be a whole number of KB, such as 99", kilobytes);
  }
  return std::min(bytes, static_cast<std::size_t>(limit) * 1024);
}

}  // namespace strobe
