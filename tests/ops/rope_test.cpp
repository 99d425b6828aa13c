// Tests the rotary position embedding (RoPE) and its inverse.
#include "ops/rope.h"

#include <gtest/gtest.h>

#include "ops/cpu/rope.h"
#include "ops/differences.h"
#include "ops/tensors.h"
#include "strobe/error.h"

namespace strobe::ops {
namespace {

TEST(Rope, FirstPositionIsUnchangedAndPairsRotate) {
  const std::vector<float> table = rope_table(3, 4);
  std::vector<float> x = {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0};
  rope({}, {.tokens = 3, .heads = 1, .head_dim = 4, .context = 3}, table.data(), x.data(), Rotation::forward);
  EXPECT_EQ(x[0], 1);
  EXPECT_EQ(x[1], 0);
  EXPECT_NEAR(x[4], std::cos(1.0), 1e-6);
  EXPECT_NEAR(x[5], std::sin(1.0), 1e-6);
  EXPECT_NEAR(x[8], std::cos(2.0), 1e-6);
  EXPECT_NEAR(x[10], std::cos(2.0 / 100), 1e-6) << "theta^(-2/4) = 1/100";
}

TEST(Rope, BackwardInvertsForwardAndPositionsRepeat) {
  const std::vector<float> table = rope_table(9, 6);
  const std::vector<double> start = normal_values(4 * 2 * 6, 1);
  const Rope shape{.tokens = 4, .heads = 2, .head_dim = 6, .context = 2, .first_position = 7};
  Values x(DType::fp32, start);
  rope({.threads = 2}, shape, table.data(), x.data(), Rotation::forward);
  EXPECT_GT(std::abs(x[0] - start[0]), 1e-3) << "position 7";
  Values again(DType::fp32, std::vector<double>(start.begin() + 24, start.end()));
  rope({}, {.tokens = 2, .heads = 2, .head_dim = 6, .context = 2, .first_position = 7}, table.data(), again.data(),
       Rotation::forward);
  for (std::size_t i = 0; i < again.size(); ++i)
    EXPECT_EQ(again[i], x[24 + i]) << "tokens 2 and 3 have the positions 7 and 8";
  rope({}, shape, table.data(), x.data(), Rotation::back);
  for (std::size_t i = 0; i < start.size(); ++i) EXPECT_NEAR(x[i], start[i], 1e-6);
}

TEST(Rope, GradientByFiniteDifferences) {
  const std::vector<float> rounded = rope_table(4, 6);
  const std::vector<double> table(rounded.begin() + 3 * 6, rounded.end());
  const std::vector<double> x = normal_values(6, 2), dy = normal_values(6, 3);
  std::vector<double> dx = dy;
  rope_head(dx.data(), table.data(), 6, -1.0);
  expect_gradient("dx", x, dx, [&](std::vector<double> at) {
    rope_head(at.data(), table.data(), 6, 1.0);
    return dot(at, dy);
  });
}

TEST(Rope, OddDimensionsAreRejected) { EXPECT_THROW(rope_table(4, 5), Error); }

}  // namespace
}  // namespace strobe::ops
