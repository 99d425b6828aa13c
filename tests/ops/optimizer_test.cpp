// Tests AdamW, clipping and gradient norms.
#include "ops/optimizer.h"

#include <gtest/gtest.h>

#include <limits>

#include "ops/differences.h"
#include "ops/tensors.h"

namespace strobe::ops {
namespace {

// The first step of Adam moves every value with a nonzero gradient by the learning rate.
TEST(AdamW, FirstStepAndDecay) {
  float value[] = {1, 1, -2}, mean[3] = {}, variance[3] = {};
  const float gradient[] = {1e-3f, -50, 0};
  const Trained tensor{.count = 3, .value = value, .gradient = gradient, .mean = mean, .variance = variance};
  adamw({}, {.rate = 0.1, .decay = 0.5, .step = 1}, {&tensor, 1});
  EXPECT_NEAR(value[0], 1 * 0.95 - 0.1, 1e-5);
  EXPECT_NEAR(value[1], 1 * 0.95 + 0.1, 1e-6);
  EXPECT_FLOAT_EQ(value[2], -2 * 0.95f);
  EXPECT_FLOAT_EQ(mean[1], -5);
  EXPECT_FLOAT_EQ(variance[1], 2.5f);
}

// Compares several steps with the formula in float64. Gradients are scaled by 0.5, as by clipping, and the values have
// a bf16 copy.
TEST(AdamW, StepsAgreeWithFloat64) {
  const std::size_t count = 40'000;
  const std::vector<double> start = normal_values(count, 1);
  std::vector<double> exact = start, mean(count), variance(count);
  std::vector<float> value(start.begin(), start.end()), m(count), v(count), gradient(count);
  std::vector<float> value3 = value, m3 = m, v3 = v;
  Values copy(DType::bf16, count), copy3 = copy;
  for (int step = 1; step <= 5; ++step) {
    const std::vector<double> drawn = normal_values(count, 10u + static_cast<unsigned>(step));
    std::copy(drawn.begin(), drawn.end(), gradient.begin());
    const AdamW options{.rate = 1e-2, .step = step, .gradient_scale = 0.5};
    const Trained one{
        static_cast<std::int64_t>(count), value.data(), gradient.data(), m.data(), v.data(), copy.data(), DType::bf16};
    const Trained three{static_cast<std::int64_t>(count),
                        value3.data(),
                        gradient.data(),
                        m3.data(),
                        v3.data(),
                        copy3.data(),
                        DType::bf16};
    adamw({.threads = 1}, options, {&one, 1});
    adamw({.threads = 3}, options, {&three, 1});
    for (std::size_t i = 0; i < count; ++i) {
      const double g = 0.5 * gradient[i];
      mean[i] = 0.9 * mean[i] + 0.1 * g;
      variance[i] = 0.999 * variance[i] + 0.001 * g * g;
      const double m_hat = mean[i] / (1 - std::pow(0.9, step)), v_hat = variance[i] / (1 - std::pow(0.999, step));
      exact[i] -= 1e-2 * (0.01 * exact[i] + m_hat / (std::sqrt(v_hat) + 1e-8));
    }
  }
  EXPECT_EQ(value, value3);
  EXPECT_TRUE(copy == copy3);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_NEAR(value[i], exact[i], 1e-5) << i;
    EXPECT_EQ(copy[i], round_to(DType::bf16, value[i])) << i;
  }
}

TEST(GradientNorm, OverAllTensorsAndClipping) {
  const std::vector<float> a(50'000, 0.5f), b = {30, 40};
  const Trained tensors[] = {{.count = 50'000, .gradient = a.data()}, {.count = 2, .gradient = b.data()}};
  const double expected = std::sqrt(50'000 * 0.25 + 2500);
  EXPECT_NEAR(gradient_norm({.threads = 2}, tensors), expected, 1e-9);
  EXPECT_EQ(gradient_norm({.threads = 2}, tensors), gradient_norm({.threads = 1}, tensors));
  EXPECT_NEAR(gradient_norm({}, tensors, 0.5), expected / 2, 1e-9);
  EXPECT_DOUBLE_EQ(clip_factor(4, 1), 0.25);
  EXPECT_EQ(clip_factor(0.5, 1), 1);
  EXPECT_EQ(clip_factor(4, 0), 1) << "a limit of 0 means no clipping";
  const float bad[] = {std::numeric_limits<float>::infinity()};
  const Trained spoiled{.count = 1, .gradient = bad};
  EXPECT_FALSE(std::isfinite(gradient_norm({}, {&spoiled, 1})));
}

}  // namespace
}  // namespace strobe::ops
