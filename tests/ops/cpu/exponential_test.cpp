// Tests the exponential function of every instruction set.
#include "ops/cpu/exponential.h"

#include <gtest/gtest.h>

#include <limits>

#include "ops/cpu/isa.h"
#include "support/isa_scope.h"

namespace strobe::ops {
namespace {

// Returns e^x, computed by the chosen instruction set's cross-entropy gradient. With target -1, log-sum 0 and scale 1
// this gradient is e^x.
std::vector<float> exponentials(std::vector<float> x) {
  chosen_isa().fp32.cross_entropy_gradient(x.data(), static_cast<std::int64_t>(x.size()), -1, 0, 1);
  return x;
}

TEST(Exponential, IsWithinOneAndAHalfUlpOnEveryInstructionSet) {
  std::vector<float> x;
  for (float at = -104; at < 88.72f; at += 0.0037f) x.push_back(at);
  for (float at = 1e-9f; at < 1; at *= 1.01f) {
    x.push_back(at);
    x.push_back(-at);
  }
  for (const std::string& name : test::available_isas()) {
    const test::IsaScope scope(name);
    const std::vector<float> y = exponentials(x);
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp(static_cast<double>(x[i]));
      const double unit = std::max(std::ldexp(1.0, std::ilogb(exact) - 23), 0x1p-149);
      const double error = std::abs(y[i] - exact) / unit;
      ASSERT_LE(error, 1.5) << name << ", x " << x[i];
      worst = std::max(worst, error);
    }
    EXPECT_GT(worst, 0.4) << name << ": an error that small means that nothing was compared";
  }
}

TEST(Exponential, AtTheLimitsOfFp32) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x{0, -0.0f, infinity, -infinity, nan, 88.73f, 1e30f, -104.1f, -1e30f};
  x.resize(37, 1);  // covers full vectors and a remainder
  std::rotate(x.begin(), x.begin() + 9, x.end());
  for (const std::string& name : test::available_isas()) {
    SCOPED_TRACE(name);
    const test::IsaScope scope(name);
    for (const bool rotated : {false, true}) {
      std::vector<float> at = x;
      if (rotated) std::rotate(at.begin(), at.end() - 9, at.end());
      const std::vector<float> y = exponentials(at);
      const float* const found = rotated ? y.data() : y.data() + 28;
      EXPECT_EQ(found[0], 1);
      EXPECT_EQ(found[1], 1);
      EXPECT_EQ(found[2], infinity);
      EXPECT_EQ(found[3], 0);
      EXPECT_TRUE(std::isnan(found[4]));
      EXPECT_EQ(found[5], infinity);
      EXPECT_EQ(found[6], infinity);
      EXPECT_EQ(found[7], 0);
      EXPECT_EQ(found[8], 0);
    }
  }
}

}  // namespace
}  // namespace strobe::ops
