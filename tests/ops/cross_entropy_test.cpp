// Tests cross-entropy: known losses and gradients.
#include "ops/cross_entropy.h"

#include <gtest/gtest.h>

#include "ops/cpu/softmax.h"
#include "ops/differences.h"
#include "ops/tensors.h"

namespace strobe::ops {
namespace {

TEST(CrossEntropy, GradientByFiniteDifferences) {
  const std::vector<double> logits = normal_values(11, 1);
  std::vector<double> gradient = logits;
  cross_entropy_row_gradient(gradient.data(), 11, 4, log_sum_exp(logits.data(), 11), 0.25);
  expect_gradient("dlogits", logits, gradient,
                  [](const auto& at) { return 0.25 * (log_sum_exp(at.data(), 11) - at[4]); });
}

TEST(CrossEntropy, EqualLogitsAndLargeOnes) {
  const float logits[] = {5, 5, 5, 5, 1e4f, -1e4f, 0, 0};
  const std::int32_t target[] = {2, 0};
  float losses[2];
  cross_entropy({}, {.rows = 2, .vocabulary = 4}, logits, target, losses);
  EXPECT_NEAR(losses[0], std::log(4.0), 1e-6);
  EXPECT_EQ(losses[1], 0);
  const std::int32_t unlikely[] = {2, 1};
  cross_entropy({}, {.rows = 2, .vocabulary = 4}, logits, unlikely, losses);
  EXPECT_EQ(losses[1], 2e4f);
  EXPECT_NEAR(mean_of(losses, 2), (std::log(4.0) + 2e4) / 2, 1e-3);
  EXPECT_EQ(mean_of(losses, 0), 0);
}

TEST(CrossEntropy, GradientsOfARowAddUpToZeroInEveryType) {
  const std::int64_t rows = 9, vocabulary = 301;
  std::vector<std::int32_t> target(rows);
  for (std::size_t r = 0; r < target.size(); ++r) target[r] = static_cast<std::int32_t>(r * 31);
  for (const DType dtype : kTypes) {
    const Values start(dtype, normal_values(rows * vocabulary, 2));
    const CrossEntropy shape{.rows = rows, .vocabulary = vocabulary, .dtype = dtype, .gradient_scale = 1024};
    Values one = start, three = start;
    std::vector<float> losses(rows), losses3(rows), plain(rows);
    cross_entropy({}, shape, start.data(), target.data(), plain.data());
    cross_entropy_with_gradient({.threads = 1}, shape, one.data(), target.data(), losses.data());
    cross_entropy_with_gradient({.threads = 3}, shape, three.data(), target.data(), losses3.data());
    EXPECT_TRUE(one == three);
    EXPECT_EQ(losses, losses3);
    EXPECT_EQ(losses, plain);
    for (std::size_t r = 0; r < target.size(); ++r) {
      double sum = 0;
      for (std::size_t i = 0; i < 301; ++i) sum += one[r * 301 + i];
      EXPECT_NEAR(sum, 0, 1024.0 / rows * unit_of(dtype) * 4);
      EXPECT_LT(one[r * 301 + static_cast<std::size_t>(target[r])], -100);
    }
  }
}

}  // namespace
}  // namespace strobe::ops
