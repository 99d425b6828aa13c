#include "lm/data/window_order.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

namespace strobe::lm {
namespace {

std::vector<std::int64_t> epoch_of(const WindowOrder& order, std::int64_t windows, std::int64_t epoch) {
  std::vector<std::int64_t> found;
  for (std::int64_t i = 0; i < windows; ++i) found.push_back(order.at(epoch * windows + i));
  return found;
}

TEST(WindowOrder, EveryEpochHasEveryWindowOnce) {
  for (const std::int64_t windows : {1, 2, 3, 4, 5, 7, 16, 17, 100, 1000, 4097}) {
    const WindowOrder order(11, windows);
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      const std::vector<std::int64_t> found = epoch_of(order, windows, epoch);
      const std::set<std::int64_t> all(found.begin(), found.end());
      EXPECT_EQ(std::ssize(all), windows);
      EXPECT_EQ(*all.begin(), 0);
      EXPECT_EQ(*all.rbegin(), windows - 1);
    }
  }
}

TEST(WindowOrder, EpochsAndSeedsDiffer) {
  const std::int64_t windows = 64;
  const WindowOrder order(1, windows);
  EXPECT_NE(epoch_of(order, windows, 0), epoch_of(order, windows, 1));
  EXPECT_NE(epoch_of(order, windows, 0), epoch_of(WindowOrder(2, windows), windows, 0));
  EXPECT_EQ(epoch_of(order, windows, 5), epoch_of(WindowOrder(1, windows), windows, 5));
}

// Each window stands at each place about equally often: 3 windows have 6 orders.
TEST(WindowOrder, AllOrdersOccur) {
  const WindowOrder order(3, 3);
  std::set<std::vector<std::int64_t>> orders;
  for (std::int64_t epoch = 0; epoch < 200; ++epoch) orders.insert(epoch_of(order, 3, epoch));
  EXPECT_EQ(orders.size(), 6u);
}

// A place in data of 2^40 windows takes no memory and no time.
TEST(WindowOrder, TakesAnyNumberOfWindows) {
  const std::int64_t windows = (std::int64_t{1} << 40) + 1;
  const WindowOrder order(3, windows);
  std::set<std::int64_t> found;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const std::int64_t window = order.at(windows - 500 + i);
    EXPECT_GE(window, 0);
    EXPECT_LT(window, windows);
    found.insert(window);
  }
  EXPECT_EQ(found.size(), 1000u);
}

}  // namespace
}  // namespace strobe::lm
