// The counting allocator: aligned_alloc behind a lock and three counters. Allocations are few and large (one workspace
// a call), so that one lock costs nothing that can be measured.
#include "device/host/allocator.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "core/fail.h"

namespace strobe {

namespace {

constexpr std::size_t kMost = std::size_t{1} << 56;  // beyond any address space; keeps the rounding up from wrapping

}  // namespace

void* CountingAllocator::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* pointer = nullptr;
  if (bytes <= kMost) pointer = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  const std::lock_guard lock(mutex_);
  if (!pointer) {
    fail(ErrorCode::out_of_memory, "memory: cannot allocate {} bytes on the host ({} bytes held already)", bytes,
         statistics_.current);
  }
  statistics_.current += bytes;
  statistics_.peak = std::max(statistics_.peak, statistics_.current);
  ++statistics_.allocations;
  if (observer_) observer_({AllocationEvent::Kind::allocate, bytes, pointer, statistics_.current});
  return pointer;
}

void CountingAllocator::free(void* pointer, std::size_t bytes) noexcept {
  if (!pointer) return;
  {
    const std::lock_guard lock(mutex_);
    statistics_.current -= bytes;
    if (observer_) observer_({AllocationEvent::Kind::free, bytes, pointer, statistics_.current});
  }
  std::free(pointer);
}

AllocationStatistics CountingAllocator::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void CountingAllocator::reset_peak() {
  const std::lock_guard lock(mutex_);
  statistics_.peak = statistics_.current;
}

void CountingAllocator::observe(Observer observer) {
  const std::lock_guard lock(mutex_);
  observer_ = std::move(observer);
}

CountingAllocator& host_allocator() {
  // Never destroyed: buffers of static duration may be given back after any other object of this file is gone.
  static auto* const allocator = new CountingAllocator;
  return *allocator;
}

}  // namespace strobe
