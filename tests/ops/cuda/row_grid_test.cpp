// Tests ops/cuda/row_grid: blocks and threads of kernels that process rows.
#include "ops/cuda/row_grid.h"

#include <gtest/gtest.h>

namespace strobe::ops::cuda {
namespace {

TEST(RowGrid, CoversEveryVectorOfARow) {
  for (const std::int64_t rows : {1, 5, 2048, 65535, 65536, 1'000'000}) {
    for (std::int64_t vectors = 1; vectors < 3000; ++vectors) {
      const RowGrid grid = row_grid(rows, vectors);
      ASSERT_TRUE(grid.threads % 32 == 0 && grid.threads > 0 && grid.threads <= kMostRowThreads) << vectors;
      ASSERT_GE(std::int64_t{grid.parts} * grid.threads, vectors);
      ASSERT_LT(std::int64_t{grid.parts - 1} * grid.threads, vectors) << "a part is empty";
      ASSERT_TRUE(grid.rows >= 1 && grid.rows <= std::min<std::int64_t>(rows, 65535)) << rows;
    }
  }
}

TEST(RowGrid, LeavesFewThreadsIdle) {
  EXPECT_EQ(row_grid(2048, 800).threads, 160u);  // 6400 columns of 2 bytes are 800 vectors of 16 bytes
  EXPECT_EQ(row_grid(2048, 800).parts, 5u);
  EXPECT_EQ(row_grid(2048, 400).threads, 224u);  // q and k: 2 * 25 heads of 64 columns are 400 vectors
  EXPECT_EQ(row_grid(2048, 384).threads, 192u);
  EXPECT_EQ(row_grid(2048, 1).threads, 32u);
}

}  // namespace
}  // namespace strobe::ops::cuda
