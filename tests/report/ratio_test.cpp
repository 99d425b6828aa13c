// Tests report/ratio, which compares the times of two builds: its confidence interval, and that it reports a difference
// only with sufficient evidence.
#include "report/ratio.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace strobe::report {
namespace {

std::vector<Launch> steady(double seconds, std::size_t launches) {
  std::vector<Launch> all;
  for (std::size_t i = 0; i < launches; ++i) {
    const double one = seconds * (1 + 0.004 * static_cast<double>(i % 3));
    all.push_back({one, one * 1.01, one * 1.02, one * 1.05});
  }
  return all;
}

Verdict verdict(const std::vector<Launch>& a, const std::vector<Launch>& b, double threshold = 0.05) {
  return verdict_on(bootstrap_ratio(a, b), threshold);
}

TEST(Ratio, VerdictsOfSteadyLaunches) {
  const std::vector<Launch> base = steady(0.010, 5);
  EXPECT_EQ(verdict(base, base), Verdict::same);
  EXPECT_EQ(verdict(base, steady(0.0102, 5)), Verdict::same);
  EXPECT_EQ(verdict(base, steady(0.011, 5)), Verdict::slower);
  EXPECT_EQ(verdict(base, steady(0.009, 5)), Verdict::faster);
  EXPECT_EQ(verdict(base, steady(0.0105, 5)), Verdict::ambiguous);  // the ratio 1.05 is the threshold
  EXPECT_EQ(verdict(base, steady(0.011, 5), 0.15), Verdict::same);
  EXPECT_NEAR(bootstrap_ratio(base, steady(0.011, 5)).value, 1.1, 1e-9);
}

TEST(Ratio, LaunchesThatWereDisturbedDoNotProveASlowdown) {
  std::vector<Launch> disturbed = steady(0.010, 5);
  for (const std::size_t i : {0u, 2u}) {
    for (double& sample : disturbed[i]) sample *= 1.5;
  }
  EXPECT_EQ(verdict(steady(0.010, 5), disturbed), Verdict::same);
  for (double& sample : disturbed[3]) sample *= 1.5;
  EXPECT_NE(verdict(steady(0.010, 5), disturbed), Verdict::slower);
}

TEST(Ratio, FewLaunchesWidenTheInterval) {
  const Ratio one = bootstrap_ratio(steady(0.010, 1), steady(0.010, 1));
  EXPECT_EQ(one.launches, 1u);
  EXPECT_LT(one.low, 1 - kLaunchDeviation);
  EXPECT_GT(one.high, 1 + kLaunchDeviation);
  EXPECT_EQ(verdict(steady(0.010, 1), steady(0.010, 1)), Verdict::same);
  EXPECT_EQ(verdict(steady(0.010, 2), steady(0.0115, 2)), Verdict::slower);
  // For a result without samples, compare passes the median as the only sample.
  EXPECT_EQ(verdict({{0.01}}, {{0.01}}), Verdict::same);
}

TEST(Ratio, OneLaunchProvesNoDifference) {
  for (const double seconds : {0.005, 0.0115, 0.020}) {
    EXPECT_EQ(verdict(steady(0.010, 1), steady(seconds, 1)), Verdict::ambiguous) << seconds;
    EXPECT_EQ(verdict(steady(0.010, 5), steady(seconds, 1)), Verdict::ambiguous) << seconds;
    EXPECT_NE(verdict(steady(0.010, 2), steady(seconds, 2)), Verdict::ambiguous) << seconds;
  }
}

// The two launches of each build differ by 10 %, so a difference of 12 % between the builds is no evidence.
TEST(Ratio, FewLaunchesThatDifferGiveAnAmbiguousVerdict) {
  const std::vector<Launch> a{{0.0100}, {0.0110}}, b{{0.0112}, {0.0123}};
  EXPECT_EQ(verdict(a, b), Verdict::ambiguous);
}

TEST(Ratio, SameInputGivesTheSameInterval) {
  const Ratio a = bootstrap_ratio(steady(0.01, 5), steady(0.011, 6)),
              b = bootstrap_ratio(steady(0.01, 5), steady(0.011, 6));
  EXPECT_EQ(a.low, b.low);
  EXPECT_EQ(a.high, b.high);
}

// Simulates pairs of builds with five launches each. The base times of launches have a standard deviation of 1 %, and
// samples exceed them by 3 % on average. One launch in ten is 30 % slower.
TEST(Ratio, TwentyPairsGiveNoFalseSlowdownAndDetectTenPercent) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  std::exponential_distribution<double> above(1 / 0.03);
  const auto run = [&](double seconds) {
    std::vector<Launch> launches(5);
    for (Launch& launch : launches) {
      double own = seconds * std::exp(0.01 * normal(random));
      if (random() % 10 == 0) own *= 1.3;
      for (int i = 0; i < 30; ++i) launch.push_back(own * (1 + above(random)));
    }
    return launches;
  };
  int same = 0, proven = 0;
  for (int pair = 0; pair < 20; ++pair) {
    const Verdict equal = verdict(run(0.01), run(0.01));
    EXPECT_NE(equal, Verdict::slower);
    same += equal == Verdict::same;
    proven += verdict(run(0.01), run(0.011)) == Verdict::slower;
  }
  EXPECT_GE(same, 18);
  EXPECT_GE(proven, 18);
}

}  // namespace
}  // namespace strobe::report
