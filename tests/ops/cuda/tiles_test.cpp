// Tests the predicted rates by which the tile of a GPU matmul is selected, relative to the GPU's peak.
#include "ops/cuda/tiles.h"

#include <gtest/gtest.h>

namespace strobe::ops::cuda {
namespace {

constexpr int kMultiprocessors = 132;

TEST(Tiles, IdleMultiprocessorsLowerTheRate) {
  // 8 x 16 tiles on 132 multiprocessors. Per step of the sum a tile reads 200 + 128 elements for 200 * 128 FMAs.
  EXPECT_NEAR(expected_rate(1600, 2048, {200, 128}, kMultiprocessors), 128.0 / 132 / (1 + 8 * 328.0 / 25600), 1e-12);
  // 7 x 16 tiles. The last of the seven has 64 of 256 rows.
  EXPECT_NEAR(expected_rate(1600, 2048, {256, 128}, kMultiprocessors),
              112.0 / 132 * 1600 / 1792 / (1 + 8 * 384.0 / 32768), 1e-12);
  EXPECT_GT(expected_rate(1600, 2048, {200, 128}, kMultiprocessors),
            expected_rate(1600, 2048, {256, 128}, kMultiprocessors));
}

TEST(Tiles, OneTileTooManyNeedsAnotherWave) {
  const double full = expected_rate(132 * 128, 128, {128, 128}, kMultiprocessors);
  const double one_more_tile = expected_rate(133 * 128, 128, {128, 128}, kMultiprocessors);
  EXPECT_NEAR(one_more_tile / full, 133.0 / 264, 1e-12);
}

TEST(Tiles, LargerTilesAreBetterIfBothFillTheGpu) {
  const int rows = 2 * kMultiprocessors * 128;
  EXPECT_GT(expected_rate(rows, 256, {256, 128}, kMultiprocessors),
            expected_rate(rows, 256, {128, 128}, kMultiprocessors));
}

TEST(Tiles, NoTileReachesTheFullRate) {
  for (const int side : {1, 127, 128, 129, 20000}) {
    const double rate = expected_rate(side, side, {128, 256}, kMultiprocessors);
    EXPECT_GT(rate, 0) << side;
    EXPECT_LT(rate, 1) << side;
  }
}

}  // namespace
}  // namespace strobe::ops::cuda
