// Tests attention/cpu/plan.h: the logit of a running maximum, and the division of rows into panels.
#include "attention/cpu/plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace strobe::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

CpuScoreOptions plain_options(float scale) {
  CpuScoreOptions options{};
  options.plain = true;
  options.scale = options.unit = scale;
  return options;
}

Isa isa_that_fuses(bool fused) {
  Isa isa{};
  isa.fused = fused;
  return isa;
}

// Probabilities are 2^(s * factor - m), where m is max * factor rounded to fp32. This rounding multiplies all of them
// by 2^(max * factor - m), which LSE must include.
TEST(LogitOfMax, IncludesTheRoundingOfTheExponent) {
  const CpuScoreOptions options = plain_options(0.125f);
  const Isa isa = isa_that_fuses(true);
  const LogitOfMax logit(isa, options);
  const float factor = options.exponent_factor();
  int rounded = 0;
  for (float max = -40; max < 40; max += 0.37f) {
    const volatile float m = max * factor;
    const double lost = static_cast<double>(m) - static_cast<double>(max) * factor;
    EXPECT_DOUBLE_EQ(logit(max), static_cast<double>(max) * 0.125 + lost * std::log(2.0)) << max;
    rounded += logit(max) != static_cast<double>(max) * 0.125;
  }
  EXPECT_GT(rounded, 100);
  EXPECT_EQ(logit(-kInfinity), -kInfinity);
}

// If the kernel computes the exponent as (s - max) * factor, max * factor is not rounded.
TEST(LogitOfMax, EqualsTheMaximumIfDifferencesAreUsed) {
  const CpuScoreOptions options = plain_options(0.125f);
  CpuScoreOptions exact = options;
  exact.exact_max = true;
  CpuScoreOptions biased = options;
  biased.bias = true;
  const float max = 3.7f, far = 1.3e7f;
  EXPECT_EQ(LogitOfMax(isa_that_fuses(false), options)(max), max * 0.125);
  EXPECT_EQ(LogitOfMax(isa_that_fuses(true), exact)(max), max * 0.125);
  EXPECT_EQ(LogitOfMax(isa_that_fuses(true), biased)(max), max * 0.125);
  EXPECT_NE(LogitOfMax(isa_that_fuses(true), options)(max), max * 0.125);
  EXPECT_EQ(LogitOfMax(isa_that_fuses(true), options)(far), far * 0.125);
}

// Returns the lanes of each panel of a row block, for example "12 12 8".
std::string lanes_of(int wide, int narrow, int rows) {
  Isa isa{};
  isa.n = wide;
  isa.narrow.n = narrow;
  const PanelsOfBlock panels(isa, rows);
  std::string all;
  int next = 0;
  for (int p = 0; p < panels.count(); ++p) {
    EXPECT_EQ(panels.first_lane(p), next) << rows;
    next += panels.panel(p).n;
    all += (p ? " " : "") + std::to_string(panels.panel(p).n);
  }
  EXPECT_EQ(panels.lanes(), next) << rows;
  EXPECT_GE(next, rows);
  EXPECT_LE(next, panels.count() * wide) << "more lanes than the panels have";
  return all;
}

TEST(PanelsOfBlock, EndsWithNarrowPanelsIfTheyNeedFewerLanes) {
  EXPECT_EQ(lanes_of(12, 8, 12), "12");
  EXPECT_EQ(lanes_of(12, 8, 24), "12 12");
  EXPECT_EQ(lanes_of(12, 8, 23), "12 12");
  EXPECT_EQ(lanes_of(12, 8, 21), "12 12");
  EXPECT_EQ(lanes_of(12, 8, 20), "12 8");
  EXPECT_EQ(lanes_of(12, 8, 17), "12 8");
  EXPECT_EQ(lanes_of(12, 8, 16), "8 8");
  EXPECT_EQ(lanes_of(12, 8, 13), "8 8");
  EXPECT_EQ(lanes_of(12, 8, 64), "12 12 12 12 8 8");
  EXPECT_EQ(lanes_of(12, 8, 8), "8");
  EXPECT_EQ(lanes_of(12, 8, 1), "8");
}

TEST(PanelsOfBlock, AreAllWideWithoutNarrowPanels) {
  EXPECT_EQ(lanes_of(16, 0, 1), "16");
  EXPECT_EQ(lanes_of(16, 0, 40), "16 16 16");
}

}  // namespace
}  // namespace strobe::cpu
