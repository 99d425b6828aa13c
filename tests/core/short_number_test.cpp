// Tests core/short_number: numbers without an exponent (three or more significant digits, at most nine decimals),
// counts and byte sizes.
#include "core/short_number.h"

#include <gtest/gtest.h>

#include <limits>

namespace strobe {
namespace {

TEST(ShortNumber, ThreeDigitsAndNoExponent) {
  EXPECT_EQ(short_number(0.0012345), "0.00123");
  EXPECT_EQ(short_number(12.345), "12.3");
  EXPECT_EQ(short_number(34), "34.0");
  EXPECT_EQ(short_number(2180.4), "2180");
  EXPECT_EQ(short_number(60900), "60900");
  EXPECT_EQ(short_number(-1.5), "-1.50");
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(std::numeric_limits<double>::infinity()), "0");
}

TEST(ShortNumber, CountsKeepAllIntegerDigits) {
  EXPECT_EQ(count_text(36), "36");
  EXPECT_EQ(count_text(1'200'001), "1200001");
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(1.0 / 3), "0.33");
}

TEST(BytesText, UsesBinaryUnits) {
  EXPECT_EQ(bytes_text(640), "640 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(std::size_t{3} << 29), "1.50 GiB");
  EXPECT_EQ(exact_bytes_text(3 << 20), "3.0 MiB (3145728 bytes)");
}

}  // namespace
}  // namespace strobe
