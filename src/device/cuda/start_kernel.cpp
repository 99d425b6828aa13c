// Implements start_kernel(), which launches kernels through the driver. With its per-thread cache of kernel handles,
// the only runtime call per launch is the query of the current device.
#include "device/cuda/start_kernel.h"

#include <cuda.h>

#include <cstdint>

#include "device/cuda/driver.h"

namespace strobe::cuda {

namespace {

constexpr std::size_t kAlwaysAllowed = 48 * 1024;  // bytes of dynamic shared memory that need no opt-in

struct KernelEntry {
  const void* kernel;
  int device;
  bool large_shared;    // the kernel's shared memory limit has been raised to the GPU's maximum
  cudaKernel_t handle;  // valid in any context
};

// Returns the cache entry of a kernel, or an entry that may be overwritten. The cache is 4-way set-associative, and a
// miss in a full set evicts its first entry. The address is hashed, because kernel addresses are evenly spaced.
KernelEntry& cache_slot(const void* kernel) {
  static thread_local KernelEntry table[32][4] = {};
  const auto mixed = reinterpret_cast<std::uintptr_t>(kernel) / 4 * 0x9E3779B97F4A7C15u;
  KernelEntry(&slots)[4] = table[mixed >> 59];
  for (KernelEntry& entry : slots) {
    if (entry.kernel == kernel || !entry.kernel) return entry;
  }
  return slots[0];
}

// Raises the kernel's limit of shared memory to the GPU's maximum instead of the requested size. The limit belongs to
// the kernel, so setting a smaller one could make a concurrent launch by another thread fail.
cudaError_t raise_shared_limit(const void* kernel, int device) {
  int most = 0;
  const cudaError_t status = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (status != cudaSuccess) return status;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
}

// Fills a cache entry. A driver launch on the null stream needs a current context. In a new thread,
// cudaFuncGetAttributes creates one.
cudaError_t fill_entry(KernelEntry& entry, const void* kernel, int device, bool large_shared) {
  cudaFuncAttributes attributes{};
  cudaError_t status = cudaFuncGetAttributes(&attributes, kernel);
  cudaKernel_t handle = nullptr;
  if (status == cudaSuccess) status = cudaGetKernel(&handle, kernel);
  if (status == cudaSuccess && large_shared) status = raise_shared_limit(kernel, device);
  if (status == cudaSuccess) entry = {kernel, device, large_shared, handle};
  return status;
}

}  // namespace

cudaError_t start_kernel(const void* kernel, const Grid& grid, void* stream, void** arguments, Waits waits) {
  static const auto launch = driver_function<decltype(&cuLaunchKernelEx)>("cuLaunchKernelEx");
  int device = 0;
  if (const cudaError_t status = cudaGetDevice(&device); status != cudaSuccess) return status;
  const bool large_shared = grid.shared_bytes > kAlwaysAllowed;
  KernelEntry& entry = cache_slot(kernel);
  if (entry.kernel != kernel || entry.device != device || entry.large_shared < large_shared) {
    if (const cudaError_t status = fill_entry(entry, kernel, device, large_shared); status != cudaSuccess)
      return status;
  }
  CUlaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (waits == Waits::in_kernel) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[count++].value.programmaticStreamSerializationAllowed = 1;
  }
  if (grid.cooperative) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attributes[count++].value.cooperative = 1;
  }
  CUlaunchConfig config{};
  config.gridDimX = grid.blocks.x, config.gridDimY = grid.blocks.y, config.gridDimZ = grid.blocks.z;
  config.blockDimX = grid.threads.x, config.blockDimY = grid.threads.y, config.blockDimZ = grid.threads.z;
  config.sharedMemBytes = static_cast<unsigned>(grid.shared_bytes);
  config.hStream = static_cast<CUstream>(stream);
  config.attrs = attributes;
  config.numAttrs = count;
  // Driver errors have the same numbers as runtime errors.
  return static_cast<cudaError_t>(launch(&config, reinterpret_cast<CUfunction>(entry.handle), arguments, nullptr));
}

}  // namespace strobe::cuda
