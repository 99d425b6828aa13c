// Counting allocator for memory of the current GPU, like host/allocator.h for host memory. GpuBuffer uses it, and so do
// the tensors of benchmarks and tests. The attention library itself does not allocate GPU memory.
#pragma once

#include <cstddef>

#include "device/allocation_counter.h"

namespace strobe {

class GpuAllocator : public AllocationCounter {
 public:
  // Returns memory that is aligned to 256 bytes and not initialised, or null for 0 bytes. Throws Error(out_of_memory)
  // with the requested and the free bytes. `tag` is as in host/allocator.h.
  void* allocate(std::size_t bytes, const char* tag = "");
  void free(void* pointer, std::size_t bytes) noexcept;
};

// Returns the allocator that GpuBuffer uses.
GpuAllocator& gpu_allocator();

}  // namespace strobe
