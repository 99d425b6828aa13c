// Compares core/natural_log with std::log.
#include "core/natural_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace strobe {
namespace {

double error_at(double x) {
  const double expected = std::log(x);
  return std::abs(natural_log(x) - expected) / std::max(1.0, std::abs(expected));
}

TEST(NaturalLog, MatchesStdLog) {
  for (double x = 0x1p-1022; x < 0x1p1020; x *= 1.37) EXPECT_LT(error_at(x), 1e-13) << x;
  for (double x = 0.5; x < 2.1; x += 1.0 / 4096) EXPECT_LT(error_at(x), 1e-13) << x;
  EXPECT_LT(error_at(std::numeric_limits<double>::max()), 1e-13);
}

TEST(NaturalLog, IsExactAtImportantValues) {
  EXPECT_EQ(natural_log(1.0), 0.0);  // the sum of exponentials of a row with one key is 1
  EXPECT_EQ(natural_log(2.0), std::log(2.0));
}

TEST(NaturalLog, ReturnsNanForInfinityAndNan) {
  EXPECT_TRUE(std::isnan(natural_log(std::numeric_limits<double>::infinity())));
  EXPECT_TRUE(std::isnan(natural_log(std::numeric_limits<double>::quiet_NaN())));
}

}  // namespace
}  // namespace strobe
