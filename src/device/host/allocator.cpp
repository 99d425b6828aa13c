// Implements CountingAllocator with aligned_alloc.
#include "device/host/allocator.h"

#include <cstdint>
#include <cstdlib>

#include "core/fail.h"

namespace strobe {

namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 56;  // more than any address space; rounding up cannot overflow

}  // namespace

void* CountingAllocator::allocate(std::size_t bytes, const char* tag) {
  if (bytes == 0) return nullptr;
  void* pointer = nullptr;
  if (bytes <= kMaxBytes) pointer = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (!pointer) {
    fail(ErrorCode::out_of_memory, "memory: cannot allocate {} bytes on the host ({} bytes in use)", bytes,
         statistics().current);
  }
  count_allocation(bytes, pointer, tag);
  return pointer;
}

void CountingAllocator::free(void* pointer, std::size_t bytes) noexcept {
  if (!pointer) return;
  count_free(bytes, pointer);
  std::free(pointer);
}

CountingAllocator& host_allocator() {
  // Never destroyed, because buffers of static storage duration may be freed after all other objects of this file.
  static auto* const allocator = new CountingAllocator;
  return *allocator;
}

}  // namespace strobe
