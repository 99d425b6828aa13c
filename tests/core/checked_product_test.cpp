// Tests core/checked_product: the product of sizes, or no value if it overflows.
#include "core/checked_product.h"

#include <gtest/gtest.h>

#include <limits>

namespace strobe {
namespace {

TEST(CheckedProduct, IsEmptyOnOverflow) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(checked_product({}), 1);
  EXPECT_EQ(checked_product({3, 5, 7}), 105);
  EXPECT_EQ(checked_product({kMost, 1}), kMost);
  EXPECT_EQ(checked_product({-2, 1LL << 62}), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(checked_product({2, 1LL << 62}), std::nullopt);
  EXPECT_EQ(checked_product({1LL << 40, 1LL << 40, 0}), std::nullopt);
}

}  // namespace
}  // namespace strobe
