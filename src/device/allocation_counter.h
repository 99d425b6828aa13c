// Counts allocations and reports them to an observer. Base class of the counting allocators of the host and the GPU.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

namespace strobe {

struct AllocationEvent {
  enum class Kind { allocate, free };
  Kind kind;
  std::size_t bytes;
  const void* pointer;
  std::size_t current;  // bytes held after the event
  const char* tag;      // purpose of an allocation; "" if unknown, and for a free
};

struct AllocationStatistics {
  std::size_t current = 0;        // bytes currently allocated
  std::size_t peak = 0;           // most bytes allocated at a time since the last reset_peak()
  std::uint64_t allocations = 0;  // number of allocations since the process started
};

// One mutex guards all members. Allocations are few and large (one workspace per call), so the cost of locking is not
// measurable.
class AllocationCounter {
 public:
  using Observer = std::function<void(const AllocationEvent&)>;

  AllocationStatistics statistics() const {
    const std::lock_guard lock(mutex_);
    return statistics_;
  }

  void reset_peak() {  // sets the peak to the current bytes
    const std::lock_guard lock(mutex_);
    statistics_.peak = statistics_.current;
  }

  // Sets a function that is called for every event, on the thread that allocates or frees; calls do not overlap. The
  // function must not throw or use this allocator. An empty function removes the observer.
  void observe(Observer observer) {
    const std::lock_guard lock(mutex_);
    observer_ = std::move(observer);
  }

 protected:
  void count_allocation(std::size_t bytes, const void* pointer, const char* tag) {
    const std::lock_guard lock(mutex_);
    statistics_.current += bytes;
    statistics_.peak = std::max(statistics_.peak, statistics_.current);
    ++statistics_.allocations;
    if (observer_) observer_({AllocationEvent::Kind::allocate, bytes, pointer, statistics_.current, tag});
  }

  void count_free(std::size_t bytes, const void* pointer) {
    const std::lock_guard lock(mutex_);
    statistics_.current -= bytes;
    if (observer_) observer_({AllocationEvent::Kind::free, bytes, pointer, statistics_.current, ""});
  }

 private:
  mutable std::mutex mutex_;
  AllocationStatistics statistics_;
  Observer observer_;
};

}  // namespace strobe
