// attention/cpu/plan: what a running maximum stands for.
#include "attention/cpu/plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace strobe::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

ScoreOptions plain_options(float scale) {
  ScoreOptions options{};
  options.plain = true;
  options.scale = options.unit = scale;
  return options;
}

Isa isa_that_fuses(bool fused) {
  Isa isa{};
  isa.fused = fused;
  return isa;
}

// Weights are 2^(s * factor - m) with m = fl(max * factor), too small by 2^(m - max * factor): LSE is larger by as
// much.
TEST(LogitOfMax, CountsWhatTheExponentWasRoundedBy) {
  const ScoreOptions options = plain_options(0.125f);
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

// Where weights are taken from (s - max) * factor, nothing is lost.
TEST(LogitOfMax, IsTheMaximumWhereDifferencesAreTaken) {
  const ScoreOptions options = plain_options(0.125f);
  ScoreOptions exact = options;
  exact.exact_max = true;
  ScoreOptions biased = options;
  biased.bias = true;
  const float max = 3.7f, far = 1.3e7f;
  EXPECT_EQ(LogitOfMax(isa_that_fuses(false), options)(max), max * 0.125);
  EXPECT_EQ(LogitOfMax(isa_that_fuses(true), exact)(max), max * 0.125);
  EXPECT_EQ(LogitOfMax(isa_that_fuses(true), biased)(max), max * 0.125);
  EXPECT_NE(LogitOfMax(isa_that_fuses(true), options)(max), max * 0.125);
  EXPECT_EQ(LogitOfMax(isa_that_fuses(true), options)(far), far * 0.125);
}

}  // namespace
}  // namespace strobe::cpu
