// Counting allocator for memory of the current GPU, as host/allocator.h for the host. Tensors of the bench, the tests
// and GpuBuffer come from here. The library itself allocates no GPU memory.
#pragma once

#include <cstddef>

#include "device/allocation_counter.h"

namespace strobe {

class GpuAllocator : public AllocationCounter {
 public:
  // Aligned to 256 bytes, contents undefined; null for 0 bytes. Throws Error(out_of_memory) with the requested and the
  // free bytes. tag: as in host/allocator.h.
  void* allocate(std::size_t bytes, const char* tag = "");
  void free(void* pointer, std::size_t bytes) noexcept;
};

// The allocator that GpuBuffer uses.
GpuAllocator& gpu_allocator();

}  // namespace strobe
