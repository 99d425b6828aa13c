// Counts of allocations with an observer: what the host's and the GPU's counting allocator share.
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
  const char* tag;      // what an allocation is for, "" where nobody said; a free has none
};

struct AllocationStatistics {
  std::size_t current = 0;        // bytes held now
  std::size_t peak = 0;           // most bytes held at once since the last reset_peak()
  std::uint64_t allocations = 0;  // since the process started
};

// Allocations are few and large (one workspace a call), so that one lock costs nothing that can be measured.
class AllocationCounter {
 public:
  using Observer = std::function<void(const AllocationEvent&)>;

  AllocationStatistics statistics() const {
    const std::lock_guard lock(mutex_);
    return statistics_;
  }

  void reset_peak() {  // to what is held now
    const std::lock_guard lock(mutex_);
    statistics_.peak = statistics_.current;
  }

  // Called at every event, one at a time, on the thread that allocates or frees; it must not throw or allocate here.
  // An empty function removes it.
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
