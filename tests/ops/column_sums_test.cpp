#include "ops/column_sums.h"

#include <gtest/gtest.h>

#include "ops/differences.h"
#include "ops/tensors.h"

namespace strobe::ops {
namespace {

TEST(ColumnSums, WritesOverOrAdds) {
  const float x[] = {1, 2, 10, 20, 100, 200};  // three rows of two
  float sums[] = {0.5f, 0.25f};
  column_sums({}, {.rows = 3, .columns = 2}, x, sums, Into::sum);
  EXPECT_EQ(sums[0], 111.5f);
  EXPECT_EQ(sums[1], 222.25f);
  column_sums({}, {.rows = 3, .columns = 2}, x, sums, Into::set);
  EXPECT_EQ(sums[0], 111);
  EXPECT_EQ(sums[1], 222);
}

TEST(ColumnSums, EveryTypeInTheOrderOfRowsWithAnyNumberOfThreads) {
  for (const auto& [rows, columns] : {std::pair(300, 131), std::pair(2, 20'011), std::pair(1, 5)}) {
    for (const DType dtype : kTypes) {
      const auto width = static_cast<std::size_t>(columns);
      const Values x(dtype, normal_values(static_cast<std::size_t>(rows) * width, 1));
      std::vector<float> one(width), three(width, 9), expected(width);
      for (std::size_t i = 0; i < x.size(); ++i) expected[i % width] += static_cast<float>(x[i]);
      const ColumnSums shape{.rows = rows, .columns = columns, .dtype = dtype};
      column_sums({.threads = 1}, shape, x.data(), one.data(), Into::sum);
      column_sums({.threads = 3}, shape, x.data(), three.data(), Into::set);
      EXPECT_EQ(one, expected);
      EXPECT_EQ(three, expected);
    }
  }
}

}  // namespace
}  // namespace strobe::ops
