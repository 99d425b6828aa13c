// Implements gpu_inventory(): the GPUs of this machine as the CUDA runtime reports them.
#include <string>

#include "device/cuda/check.h"
#include "device/device_info.h"

namespace strobe {

namespace {

GpuInfo gpu_info(int device) {
  cudaDeviceProp properties{};
  STROBE_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  GpuInfo info;
  info.index = device;
  info.name = properties.name;
  info.compute_major = properties.major;
  info.compute_minor = properties.minor;
  info.multiprocessors = properties.multiProcessorCount;
  info.memory_bytes = properties.totalGlobalMem;
  info.l2_bytes = static_cast<std::size_t>(properties.l2CacheSize);
  info.shared_bytes_per_block = properties.sharedMemPerBlockOptin;
  info.clock_mhz = cuda::attribute(cudaDevAttrClockRate, device) / 1000.0;
  info.memory_clock_mhz = cuda::attribute(cudaDevAttrMemoryClockRate, device) / 1000.0;
  info.memory_bus_bits = properties.memoryBusWidth;
  return info;
}

// Returns the free memory of the current device; the runtime cannot report that of others. Creates the device's
// context.
std::size_t free_bytes_of_current() {
  std::size_t free = 0;
  std::size_t total = 0;
  STROBE_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return free;
}

}  // namespace

GpuInventory gpu_inventory() {
  GpuInventory inventory;
  inventory.compiled_in = true;
  if (cudaRuntimeGetVersion(&inventory.runtime_version) != cudaSuccess) inventory.runtime_version = 0;
  if (cudaDriverGetVersion(&inventory.driver_version) != cudaSuccess) inventory.driver_version = 0;
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    cudaGetLastError();
    const char* why = status != cudaSuccess ? cudaGetErrorString(status) : "the driver reports none";
    if (inventory.driver_version == 0) why = "no NVIDIA driver is installed";
    inventory.reason = std::string("no usable GPU: ") + why;
    return inventory;
  }
  try {
    for (int device = 0; device < count; ++device) inventory.gpus.push_back(gpu_info(device));
    int current = 0;
    STROBE_CUDA_CHECK(cudaGetDevice(&current));
    inventory.gpus[static_cast<std::size_t>(current)].memory_free_bytes = free_bytes_of_current();
  } catch (const Error& error) {
    inventory.gpus.clear();
    inventory.reason = error.what();
  }
  return inventory;
}

}  // namespace strobe
