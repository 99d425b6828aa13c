// Tests solve/pipeline, whose stages run on separate threads. Every chunk passes every stage in order, at most
// `in_flight` chunks are in flight, and a failure ends all stages.
#include "solve/pipeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace strobe::solve {
namespace {

TEST(Pipeline, EveryChunkPassesEveryStageInOrder) {
  constexpr std::int64_t kChunks = 500, kInFlight = 3;
  std::vector<std::int64_t> places(kInFlight, -1), stored;
  std::atomic<std::int64_t> in_flight = 0, most = 0;
  run_pipeline(kChunks, kInFlight,
               {.load =
                    [&](std::int64_t c) {
                      places[static_cast<std::size_t>(c % kInFlight)] = 10 * c;
                      const std::int64_t now = ++in_flight;
                      if (now > most) most = now;
                    },
                .compute = [&](std::int64_t c) { ++places[static_cast<std::size_t>(c % kInFlight)]; },
                .store =
                    [&](std::int64_t c) {
                      stored.push_back(places[static_cast<std::size_t>(c % kInFlight)]);
                      --in_flight;
                    }});
  ASSERT_EQ(stored.size(), 500u);
  for (std::int64_t c = 0; c < kChunks; ++c) ASSERT_EQ(stored[static_cast<std::size_t>(c)], 10 * c + 1);
  EXPECT_LE(most, kInFlight);
}

// Chunk 0 waits in `compute` until chunk 1 was loaded, and in `store` until chunk 1 was computed. Stages that did not
// overlap would hang.
TEST(Pipeline, StagesOverlap) {
  std::atomic<int> loaded = 0, computed = 0;
  const auto wait_until = [](const std::atomic<int>& counter, int least) {
    for (int now; (now = counter) < least;) counter.wait(now);
  };
  const auto count = [](std::atomic<int>& counter) {
    ++counter;
    counter.notify_all();
  };
  run_pipeline(4, 3,
               {.load = [&](std::int64_t) { count(loaded); },
                .compute =
                    [&](std::int64_t c) {
                      if (c == 0) wait_until(loaded, 2);
                      count(computed);
                    },
                .store =
                    [&](std::int64_t c) {
                      if (c == 0) wait_until(computed, 2);
                    }});
  EXPECT_EQ(loaded, 4);
}

TEST(Pipeline, AFailureOfAnyStageEndsAllAndIsThrown) {
  for (const int failing : {0, 1, 2}) {
    std::int64_t last[3] = {-1, -1, -1};
    const auto stage = [&](int which) {
      return [&last, which, failing](std::int64_t c) {
        last[which] = c;
        if (which == failing && c == 5) throw std::runtime_error("stage " + std::to_string(which));
      };
    };
    try {
      run_pipeline(1'000'000, 3, {.load = stage(0), .compute = stage(1), .store = stage(2)});
      FAIL();
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), "stage " + std::to_string(failing));
    }
    for (const std::int64_t chunk : last) EXPECT_LE(chunk, 5 + 3);
  }
}

}  // namespace
}  // namespace strobe::solve
