// Implements GpuAllocator with cudaMalloc.
#include "device/gpu_allocator.h"

#include <string>

#include "device/cuda/check.h"

namespace strobe {

void* GpuAllocator::allocate(std::size_t bytes, const char* tag) {
  if (bytes == 0) return nullptr;
  void* pointer = nullptr;
  const cudaError_t status = cudaMalloc(&pointer, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free = 0;
    std::size_t total = 0;
    STROBE_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    throw Error(ErrorCode::out_of_memory, "cuda: cannot allocate " + std::to_string(bytes) + " bytes: " +
                                              std::to_string(free) + " of " + std::to_string(total) + " are free");
  }
  cuda::check(status, "cudaMalloc");
  count_allocation(bytes, pointer, tag);
  return pointer;
}

void GpuAllocator::free(void* pointer, std::size_t bytes) noexcept {
  if (!pointer) return;
  count_free(bytes, pointer);
  cudaFree(pointer);
}

GpuAllocator& gpu_allocator() {
  static auto* const allocator = new GpuAllocator;  // never destroyed, like host_allocator()
  return *allocator;
}

}  // namespace strobe
