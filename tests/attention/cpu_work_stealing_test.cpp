// Tests work stealing between units of work, one per KV head of a sequence (attention/cpu/work_stealing.h). Every block
// of rows or keys of a unit runs once, between the unit's begin and end, and each thread runs its blocks in order. This
// holds for one thread and for several, and for blocks that other threads steal.
#include "attention/cpu/work_stealing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <string>
#include <thread>
#include <vector>

namespace strobe::cpu {
namespace {

constexpr int kMostThreads = 8;

// Records how one unit ran.
struct Seen {
  explicit Seen(std::int64_t blocks) : times(static_cast<std::size_t>(blocks)) {}
  std::atomic<int> begun{0}, ended{0}, owner{-1};
  std::atomic<std::int64_t> done{0};
  std::vector<std::atomic<int>> times;  // times that each block ran
  std::int64_t last[kMostThreads];      // last block that each thread ran
};

class Units : public testing::TestWithParam<int> {
 protected:
  // Processes the units and returns how each ran. begin() returns false for unit `refused`: none of its blocks may run.
  std::deque<Seen> run_units(std::int64_t units, std::int64_t blocks, std::int64_t refused = -1) {
    std::deque<Seen> seen;
    for (std::int64_t unit = 0; unit < units; ++unit) {
      std::fill_n(seen.emplace_back(blocks).last, kMostThreads, std::int64_t{-1});
    }
    const auto at = [&](std::int64_t unit) -> Seen& { return seen[static_cast<std::size_t>(unit)]; };
    run_stealing(
        {slots(), GetParam(), units, blocks},
        [&](int thread, std::int64_t unit) {
          EXPECT_EQ(at(unit).begun++, 0);
          at(unit).owner = thread;
          return unit != refused;
        },
        [&](int thread, int owner, std::int64_t unit, std::int64_t index) {
          EXPECT_EQ(at(unit).owner, owner);
          EXPECT_EQ(at(unit).ended, 0);
          EXPECT_GT(index, at(unit).last[thread]);
          at(unit).last[thread] = index;
          ++at(unit).times[static_cast<std::size_t>(index)];
          ++at(unit).done;
        },
        [&](int, int owner, std::int64_t unit) {
          EXPECT_EQ(at(unit).owner, owner);
          EXPECT_EQ(at(unit).done, blocks);
          ++at(unit).ended;
        });
    return seen;
  }

  UnitInFlight* slots() { return reinterpret_cast<UnitInFlight*>(memory_); }

 private:
  alignas(UnitInFlight) char memory_[kMostThreads * sizeof(UnitInFlight)];
};

TEST_P(Units, RunsEveryBlockOnceBetweenBeginAndEnd) {
  for (const std::int64_t units : {1, 2, 5, 16, 33}) {
    for (const std::int64_t blocks : {0, 1, 2, 7}) {
      SCOPED_TRACE(testing::Message() << units << " units of " << blocks << " blocks");
      for (const Seen& seen : run_units(units, blocks)) {
        EXPECT_EQ(seen.begun, 1);
        for (const std::atomic<int>& times : seen.times) EXPECT_EQ(times, 1);
        EXPECT_EQ(seen.ended, 1);
      }
    }
  }
}

TEST_P(Units, RefusedUnitRunsNoBlocks) {
  const std::deque<Seen> seen = run_units(9, 4, 8);
  for (std::size_t unit = 0; unit < 8; ++unit) EXPECT_EQ(seen[unit].done, 4);
  EXPECT_EQ(seen[8].begun, 1);
  EXPECT_EQ(seen[8].done, 0);
  EXPECT_EQ(seen[8].ended, 0);
}

INSTANTIATE_TEST_SUITE_P(Threads, Units, testing::Values(1, 2, 3, kMostThreads),
                         [](const auto& info) { return "of_" + std::to_string(info.param); });

// Two threads share one unit. Each of its blocks waits until both threads run a block.
TEST(WorkStealing, IdleThreadStealsBlocks) {
  alignas(UnitInFlight) char memory[2 * sizeof(UnitInFlight)];
  std::atomic<int> inside{0};
  std::atomic<bool> together{false};
  run_stealing(
      {reinterpret_cast<UnitInFlight*>(memory), 2, 1, 2}, [](int, std::int64_t) { return true; },
      [&](int, int, std::int64_t, std::int64_t) {
        if (++inside == 2) together = true;
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (!together && std::chrono::steady_clock::now() < end) std::this_thread::yield();
        --inside;
      },
      [](int, int, std::int64_t) {});
  EXPECT_TRUE(together);
}

}  // namespace
}  // namespace strobe::cpu
