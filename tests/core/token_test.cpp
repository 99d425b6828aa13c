// Tests core/token: random tokens that authenticate the processes of a job, and their comparison.
#include "core/token.h"

#include <gtest/gtest.h>

namespace strobe::test {
namespace {

TEST(Token, IsRandomHexadecimal) {
  const std::string one = random_hex(), other = random_hex();
  EXPECT_EQ(one.size(), 32u);
  EXPECT_EQ(one.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(one, other);
  EXPECT_EQ(random_hex(8).size(), 16u);
}

TEST(Token, IsComparedCompletely) {
  EXPECT_TRUE(equal_in_constant_time("", ""));
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  EXPECT_FALSE(equal_in_constant_time("abc", "abd"));
  EXPECT_FALSE(equal_in_constant_time("abc", "bbc"));
  EXPECT_FALSE(equal_in_constant_time("abc", "ab"));
}

}  // namespace
}  // namespace strobe::test
