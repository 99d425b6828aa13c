// Tests RMSNorm and LayerNorm: known values and gradients.
#include "ops/norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/cpu/norm.h"
#include "ops/differences.h"
#include "ops/tensors.h"

namespace strobe::ops {
namespace {

constexpr std::int64_t kRmsWidth = 7;

std::vector<double> norm_of(const std::vector<double>& x, const std::vector<double>& weight) {
  std::vector<double> y(x.size());
  for (std::size_t r = 0; r < x.size() / kRmsWidth; ++r) {
    rms_norm_row(x.data() + r * kRmsWidth, weight.data(), y.data() + r * kRmsWidth, kRmsWidth, 1e-5);
  }
  return y;
}

TEST(RmsNorm, GradientsByFiniteDifferences) {
  const std::size_t rows = 3;
  const std::vector<double> x = normal_values(rows * kRmsWidth, 1), weight = normal_values(kRmsWidth, 2),
                            dy = normal_values(rows * kRmsWidth, 3);
  std::vector<double> y(x.size()), dx(x.size()), dweight(kRmsWidth), inverse(rows);
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t at = r * kRmsWidth;
    inverse[r] = rms_norm_row(x.data() + at, weight.data(), y.data() + at, kRmsWidth, 1e-5);
    rms_norm_row_backward(x.data() + at, weight.data(), inverse[r], dy.data() + at, dx.data() + at, Into::set,
                          kRmsWidth);
  }
  rms_norm_weight_backward(x.data(), inverse.data(), dy.data(), dweight.data(), std::int64_t{rows}, kRmsWidth, 0,
                           kRmsWidth);
  expect_gradient("dx", x, dx, [&](const auto& at) { return dot(norm_of(at, weight), dy); });
  expect_gradient("dweight", weight, dweight, [&](const auto& at) { return dot(norm_of(x, at), dy); });
}

// The RMS of a row of equal magnitudes is that magnitude.
TEST(RmsNorm, KnownRow) {
  const float x[] = {3, -3, 3, -3}, weight[] = {1, 2, -1, 0};
  float y[4], inverse;
  rms_norm({}, {.rows = 1, .width = 4, .eps = 0}, x, weight, y, &inverse);
  EXPECT_FLOAT_EQ(inverse, 1.0f / 3);
  EXPECT_FLOAT_EQ(y[0], 1);
  EXPECT_FLOAT_EQ(y[1], -2);
  EXPECT_FLOAT_EQ(y[2], -1);
  EXPECT_FLOAT_EQ(y[3], 0);
}

TEST(RmsNorm, EveryTypeAgreesWithFloat64AndAnyNumberOfThreads) {
  const std::int64_t rows = 37, width = 131;
  const std::vector<double> ones(width, 1.5);
  const std::vector<float> weight(ones.begin(), ones.end());
  for (const DType dtype : kTypes) {
    const Values x(dtype, normal_values(rows * width, 4)), dy(dtype, normal_values(rows * width, 5));
    const RmsNorm norm{.rows = rows, .width = width, .dtype = dtype};
    Values y(dtype, x.size()), dx(dtype, x.size()), y3 = y, dx3 = dx;
    std::vector<float> inverse(rows), dweight(width), dweight3(width);
    rms_norm({.threads = 1}, norm, x.data(), weight.data(), y.data(), inverse.data());
    rms_norm({.threads = 3}, norm, x.data(), weight.data(), y3.data(), inverse.data());
    dweight3.assign(width, 7);  // the run with 3 threads overwrites dweight, the other adds to zeros
    RmsNormGradients tensors{.x = x.data(),
                             .weight = weight.data(),
                             .inverse = inverse.data(),
                             .dy = dy.data(),
                             .dx = dx.data(),
                             .dx_into = Into::sum,
                             .dweight = dweight.data()};
    rms_norm_backward({.threads = 1}, norm, tensors);
    tensors.dx = dx3.data();
    tensors.dweight = dweight3.data();
    tensors.dweight_into = Into::set;
    rms_norm_backward({.threads = 3}, norm, tensors);
    EXPECT_TRUE(y == y3);
    EXPECT_TRUE(dx == dx3);
    EXPECT_EQ(dweight, dweight3);
    const std::vector<double> exact = x.widened(), gradient = dy.widened();
    std::vector<double> expected(exact.size()), expected_dx(exact.size());
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t at = r * width;
      const double one = rms_norm_row(exact.data() + at, ones.data(), expected.data() + at, width, 1e-5);
      rms_norm_row_backward(exact.data() + at, ones.data(), one, gradient.data() + at, expected_dx.data() + at,
                            Into::set, width);
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(y[i], expected[i], 8 * unit_of(dtype)) << i;
      EXPECT_NEAR(dx[i], expected_dx[i], 8 * unit_of(dtype)) << i;
    }
  }
}

constexpr std::int64_t kWidth = 7;

std::vector<double> norm_of(const std::vector<double>& x, const std::vector<double>& weight,
                            const std::vector<double>& bias) {
  std::vector<double> y(x.size());
  double statistics[2];
  for (std::size_t r = 0; r < x.size() / kWidth; ++r) {
    layer_norm_row(x.data() + r * kWidth, weight.data(), bias.data(), y.data() + r * kWidth, statistics, kWidth, 1e-5);
  }
  return y;
}

TEST(LayerNorm, GradientsByFiniteDifferences) {
  const std::size_t rows = 3;
  const std::vector<double> x = normal_values(rows * kWidth, 1), weight = normal_values(kWidth, 2),
                            bias = normal_values(kWidth, 3), dy = normal_values(rows * kWidth, 4);
  std::vector<double> y(x.size()), dx(x.size()), dweight(kWidth), dbias(kWidth);
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t at = r * kWidth;
    double statistics[2];
    layer_norm_row(x.data() + at, weight.data(), bias.data(), y.data() + at, statistics, kWidth, 1e-5);
    layer_norm_row_backward(x.data() + at, weight.data(), statistics, dy.data() + at, dx.data() + at, Into::set,
                            kWidth);
    layer_norm_parameters_backward(x.data() + at, statistics, dy.data() + at, dweight.data(), dbias.data(), kWidth);
  }
  expect_gradient("dx", x, dx, [&](const auto& at) { return dot(norm_of(at, weight, bias), dy); });
  expect_gradient("dweight", weight, dweight, [&](const auto& at) { return dot(norm_of(x, at, bias), dy); });
  expect_gradient("dbias", bias, dbias, [&](const auto& at) { return dot(norm_of(x, weight, at), dy); });
}

TEST(LayerNorm, KnownRow) {
  const float x[] = {1, 5, 1, 5}, weight[] = {1, 2, -1, 0}, bias[] = {0, 1, 10, 7};
  float y[4], statistics[2];
  layer_norm({}, {.rows = 1, .width = 4, .eps = 0},
             {.x = x, .weight = weight, .bias = bias, .y = y, .statistics = statistics});
  EXPECT_FLOAT_EQ(statistics[0], 3);
  EXPECT_FLOAT_EQ(statistics[1], 0.5f);
  EXPECT_FLOAT_EQ(y[0], -1);
  EXPECT_FLOAT_EQ(y[1], 3);
  EXPECT_FLOAT_EQ(y[2], 11);
  EXPECT_FLOAT_EQ(y[3], 7);
}

// For values just above 10^4, mean(x^2) - mean(x)^2 would have no correct digit in fp32.
TEST(LayerNorm, KeepsTheDigitsOfARowFarFromZero) {
  const std::vector<float> x{10000, 10000.25f, 10000.5f, 10000.75f}, ones(4, 1), zeros(4);
  std::vector<float> y(4), statistics(2);
  layer_norm(
      {}, {.rows = 1, .width = 4},
      {.x = x.data(), .weight = ones.data(), .bias = zeros.data(), .y = y.data(), .statistics = statistics.data()});
  const double inverse = 1 / std::sqrt(0.078125 + 1e-5);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(y[static_cast<std::size_t>(i)], (0.25 * i - 0.375) * inverse, 1e-5);
}

TEST(LayerNorm, EveryTypeAgreesWithFloat64AndAnyNumberOfThreads) {
  const std::int64_t rows = 37, width = 131;
  const std::vector<double> weights = normal_values(width, 7), biases = normal_values(width, 8);
  const std::vector<float> weight(weights.begin(), weights.end()), bias(biases.begin(), biases.end());
  for (const DType dtype : kTypes) {
    const Values x(dtype, normal_values(rows * width, 4)), dy(dtype, normal_values(rows * width, 5));
    const LayerNorm norm{.rows = rows, .width = width, .dtype = dtype};
    Values y(dtype, x.size()), dx(dtype, x.size()), y3 = y, dx3 = dx;
    std::vector<float> statistics(2 * rows), dweight(width), dbias(width);
    std::vector<float> dweight3(width, 7), dbias3(width, 7);  // overwritten; the run with 1 thread adds to zeros
    LayerNormTensors tensors{
        .x = x.data(), .weight = weight.data(), .bias = bias.data(), .y = y.data(), .statistics = statistics.data()};
    layer_norm({.threads = 1}, norm, tensors);
    tensors.y = y3.data();
    layer_norm({.threads = 3}, norm, tensors);
    LayerNormGradients gradients{.x = x.data(),
                                 .weight = weight.data(),
                                 .statistics = statistics.data(),
                                 .dy = dy.data(),
                                 .dx = dx.data(),
                                 .dx_into = Into::sum,
                                 .dweight = dweight.data(),
                                 .dbias = dbias.data()};
    layer_norm_backward({.threads = 1}, norm, gradients);
    gradients.dx = dx3.data();
    gradients.dweight = dweight3.data();
    gradients.dbias = dbias3.data();
    gradients.parameters_into = Into::set;
    layer_norm_backward({.threads = 3}, norm, gradients);
    EXPECT_TRUE(y == y3);
    EXPECT_TRUE(dx == dx3);
    EXPECT_EQ(dweight, dweight3);
    EXPECT_EQ(dbias, dbias3);
    const std::vector<double> exact = x.widened(), gradient = dy.widened();
    std::vector<double> expected(exact.size()), expected_dx(exact.size()), expected_dweight(width),
        expected_dbias(width);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t at = r * width;
      double one[2];
      layer_norm_row(exact.data() + at, weights.data(), biases.data(), expected.data() + at, one, width, 1e-5);
      layer_norm_row_backward(exact.data() + at, weights.data(), one, gradient.data() + at, expected_dx.data() + at,
                              Into::set, width);
      layer_norm_parameters_backward(exact.data() + at, one, gradient.data() + at, expected_dweight.data(),
                                     expected_dbias.data(), width);
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(y[i], expected[i], 8 * unit_of(dtype) * std::max(1.0, std::abs(expected[i]))) << i;
      EXPECT_NEAR(dx[i], expected_dx[i], 16 * unit_of(dtype) * std::max(1.0, std::abs(expected_dx[i]))) << i;
    }
    for (std::size_t i = 0; i < dweight.size(); ++i) {
      EXPECT_NEAR(dweight[i], expected_dweight[i], 1e-4) << i;
      EXPECT_NEAR(dbias[i], expected_dbias[i], 1e-4) << i;
    }
  }
}

}  // namespace
}  // namespace strobe::ops
