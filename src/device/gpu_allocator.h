// Memory of the current GPU that is counted, like the host's (host/allocator.h). Tensors of the bench, the tests and
// GpuBuffer come from here; the library itself allocates no GPU memory at all.
#pragma once

#include <cstddef>

#include "device/allocation_counter.h"

namespace strobe {

class GpuAllocator : public AllocationCounter {
 public:
  // Aligned to 256 bytes, contents undefined; null for 0 bytes. Throws Error(out_of_memory) with the bytes asked for
  // and free. tag: as the host's.
  void* allocate(std::size_t bytes, const char* tag = "");
  void free(void* pointer, std::size_t bytes) noexcept;
};

// The one that GpuBuffer uses.
GpuAllocator& gpu_allocator();

}  // namespace strobe
