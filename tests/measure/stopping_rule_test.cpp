// Tests measure/stopping_rule: when there are enough samples, and when warm-up ends.
#include "measure/stopping_rule.h"

#include <gtest/gtest.h>

#include <vector>

namespace strobe {
namespace {

TEST(StoppingRule, RepeatsAreExactForAnyTime) {
  const StoppingRule rule{.repeats = 3, .time_limit = 1};
  EXPECT_EQ(decide(rule, std::vector<double>{1, 2}, 100), Stop::not_yet);
  EXPECT_EQ(decide(rule, std::vector<double>{1, 2, 3}, 0), Stop::repeats);
}

TEST(StoppingRule, NarrowIntervalNeedsThirtySamples) {
  const StoppingRule rule;
  EXPECT_EQ(decide(rule, std::vector<double>(29, 1.0), 0), Stop::not_yet);
  EXPECT_EQ(decide(rule, std::vector<double>(30, 1.0), 0), Stop::interval);
}

TEST(StoppingRule, WideIntervalContinuesToTheLimit) {
  const StoppingRule rule{.time_limit = 20};
  std::vector<double> samples;
  for (int i = 0; i < 60; ++i) samples.push_back(i % 2 ? 1.0 : 1.1);
  EXPECT_EQ(decide(rule, samples, 19), Stop::not_yet);
  EXPECT_EQ(decide(rule, samples, 20), Stop::time_limit);
  EXPECT_EQ(decide(rule, std::vector<double>{1, 1}, 1000), Stop::not_yet);  // at least three samples are needed
}

TEST(WarmUp, NeedsThreeCallsAndAFifthOfASecond) {
  const std::vector<double> steady = {0.1, 0.1, 0.1};
  EXPECT_FALSE(warmed_up({}, 10, 5));
  EXPECT_FALSE(warmed_up(std::vector<double>{0.1, 0.1}, 0.3, 5));
  EXPECT_FALSE(warmed_up(steady, 0.19, 5));
  EXPECT_TRUE(warmed_up(steady, 0.3, 5));
}

TEST(WarmUp, WaitsForSteadyCallsUpToALimit) {
  const std::vector<double> falling = {0.4, 0.2, 0.1};
  EXPECT_FALSE(warmed_up(falling, 0.7, 5));
  EXPECT_TRUE(warmed_up(falling, 1.3, 5));
  EXPECT_TRUE(warmed_up(std::vector<double>{7}, 7, 5));  // one call longer than the limit
}

}  // namespace
}  // namespace strobe
