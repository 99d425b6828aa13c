// Units as tasks of a pass on the CPU: a thread begins a unit and works off its blocks, so that what the unit packs
// stays in that core's cache. Who finds no unit left helps with the blocks of those still in work.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <new>
#include <thread>

#include "device/host/thread_pool.h"

namespace strobe::cpu {

// The unit of one thread.
struct alignas(64) UnitInWork {
  std::int64_t unit;
  std::atomic<std::int64_t> next;  // block for who asks next: below 0 while the unit is begun, past the last if none
  std::atomic<std::int64_t> left;  // blocks that have not ended
};

// For each unit begin(thread, unit), which returns whether to go on with it; block(thread, owner, unit, index) for each
// of its blocks, started in increasing order; when all have ended end(thread, owner, unit). `owner` is the thread that
// began it, whose memory is the unit's. slots [threads], raw memory.
template <class Begin, class Block, class End>
void work_off_units(UnitInWork* slots, int threads, std::int64_t units, std::int64_t blocks, const Begin& begin,
                    const Block& block, const End& end) {
  constexpr std::int64_t kBegun = std::numeric_limits<std::int64_t>::min();
  for (int thread = 0; thread < threads; ++thread) new (&slots[thread]) UnitInWork{0, blocks, 0};
  const auto take_blocks = [&](int thread, int owner) {
    UnitInWork& slot = slots[owner];
    for (;;) {
      const std::int64_t index = slot.next.fetch_add(1, std::memory_order_acquire);
      if (index >= blocks) return;
      if (index < 0) {
        std::this_thread::yield();
        continue;
      }
      block(thread, owner, slot.unit, index);
      if (slot.left.fetch_sub(1, std::memory_order_acq_rel) == 1) end(thread, owner, slot.unit);
    }
  };
  // The last tasks, one a thread, are to help. They start when no unit is left to be begun, so nobody has a block of a
  // unit whose owner begins another one.
  parallel_for(threads, units + threads, [&](int thread, std::int64_t task) {
    if (task >= units) {
      for (int other = 1; other < threads; ++other) take_blocks(thread, (thread + other) % threads);
      return;
    }
    UnitInWork& own = slots[thread];
    own.next.store(kBegun, std::memory_order_relaxed);
    own.left.store(blocks, std::memory_order_relaxed);
    own.unit = task;
    const bool goes_on = begin(thread, task);
    own.next.store(goes_on ? 0 : blocks, std::memory_order_release);
    take_blocks(thread, thread);
    if (goes_on && blocks == 0) end(thread, thread, task);
  });
}

}  // namespace strobe::cpu
