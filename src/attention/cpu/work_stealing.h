// Work stealing over units (see plan.h), for forward.cpp and backward.cpp. A thread begins a unit and computes its
// blocks, so the unit's packed operands stay in that core's cache. When no units are left, a thread steals blocks from
// the units of other threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <new>
#include <thread>

#include "device/host/thread_pool.h"

namespace strobe::cpu {

// The unit that one thread has begun and from which other threads may steal blocks.
struct alignas(64) UnitInFlight {
  std::int64_t unit;
  std::atomic<std::int64_t> next;  // next block to take; negative while begin() runs
  std::atomic<std::int64_t> left;  // number of blocks not yet completed
};

struct UnitTasks {
  UnitInFlight* slots;  // [threads], raw memory
  int threads;
  std::int64_t units;
  std::int64_t blocks;  // blocks per unit
};

// Calls begin(thread, unit) for each unit. If begin() returns true, calls block(thread, owner, unit, index) for each
// block of the unit, then end(thread, owner, unit) once all of them have completed. Blocks of a unit start in
// increasing order, so a block may wait for an earlier one. `owner` is the thread that began the unit and owns its
// memory. The callbacks must not throw, because other threads wait for them.
template <class Begin, class Block, class End>
void run_stealing(const UnitTasks& tasks, const Begin& begin, const Block& block, const End& end) {
  constexpr std::int64_t kBeginning = std::numeric_limits<std::int64_t>::min();
  for (int thread = 0; thread < tasks.threads; ++thread) new (&tasks.slots[thread]) UnitInFlight{0, tasks.blocks, 0};
  std::atomic<std::int64_t> begun{0};  // units published in their slots

  enum class Found { block, nothing, nothing_yet };
  const auto take_block = [&](int thread, int owner) {
    UnitInFlight& slot = tasks.slots[owner];
    const std::int64_t index = slot.next.fetch_add(1, std::memory_order_acquire);
    if (index < 0) return Found::nothing_yet;
    if (index >= tasks.blocks) return Found::nothing;
    block(thread, owner, slot.unit, index);
    if (slot.left.fetch_sub(1, std::memory_order_acq_rel) == 1) end(thread, owner, slot.unit);
    return Found::block;
  };
  const auto own_unit = [&](int thread, std::int64_t unit) {
    UnitInFlight& own = tasks.slots[thread];
    own.next.store(kBeginning, std::memory_order_relaxed);
    begun.fetch_add(1, std::memory_order_release);
    own.left.store(tasks.blocks, std::memory_order_relaxed);
    own.unit = unit;
    const bool has_blocks = begin(thread, unit);
    own.next.store(has_blocks ? 0 : tasks.blocks, std::memory_order_release);
    while (take_block(thread, thread) == Found::block) {
    }
    if (has_blocks && tasks.blocks == 0) end(thread, thread, unit);
  };
  // Steals blocks of other threads. A thread first waits until all units are published, because no owner then replaces
  // the unit in its slot.
  const auto steal = [&](int thread) {
    while (begun.load(std::memory_order_acquire) < tasks.units) std::this_thread::yield();
    for (bool more = true; more;) {
      more = false;
      for (int other = 1; other < tasks.threads; ++other) {
        Found found;
        do {
          found = take_block(thread, (thread + other) % tasks.threads);
        } while (found == Found::block);
        more |= found == Found::nothing_yet;
      }
      if (more) std::this_thread::yield();
    }
  };
  // The first `units` tasks are one per unit. The remaining tasks, one per thread, steal blocks; they start once every
  // unit has been taken.
  parallel_for(tasks.threads, tasks.units + tasks.threads,
               [&](int thread, std::int64_t task) { task < tasks.units ? own_unit(thread, task) : steal(thread); });
}

}  // namespace strobe::cpu
