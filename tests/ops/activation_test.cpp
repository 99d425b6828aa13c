// Tests GELU and SwiGLU: known values and gradients.
#include "ops/activation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/cpu/activation.h"
#include "ops/differences.h"
#include "ops/tensors.h"
#include "support/isa_scope.h"

namespace strobe::ops {
namespace {

TEST(Gelu, GradientByFiniteDifferences) {
  const std::vector<double> x = normal_values(20, 1), dy = normal_values(20, 2);
  std::vector<double> dx(20);
  gelu_range_backward(x.data(), dy.data(), dx.data(), 20);
  expect_gradient("dx", x, dx, [&](const auto& at) {
    std::vector<double> y(20);
    gelu_range(at.data(), y.data(), 20);
    return dot(y, dy);
  });
}

// Expected values are those of torch.nn.functional.gelu in float64. The tanh approximation gives 0.84119 at 1.
TEST(Gelu, KnownValues) {
  const double x[] = {-3, -1, 0, 1, 2.5};
  const double expected[] = {-0.004049694095, -0.158655253931, 0, 0.841344746069, 2.484475836686};
  double y[5];
  gelu_range(x, y, 5);
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(y[i], expected[i], 1e-11) << x[i];
}

TEST(Gelu, FloatsOfAnyMagnitudeAgreeWithFloat64) {
  std::vector<float> x;
  for (float at = -14; at < 14; at += 0.0007f) x.push_back(at);
  for (float at = 1e-30f; at < 1e30f; at *= 1.7f) {
    x.push_back(at);
    x.push_back(-at);
  }
  const std::vector<double> wide(x.begin(), x.end()), ones(x.size(), 1);
  const std::vector<float> dy(x.size(), 1);
  const auto count = static_cast<std::int64_t>(x.size());
  std::vector<double> exact_y(x.size()), exact_dx(x.size());
  gelu_range(wide.data(), exact_y.data(), count);
  gelu_range_backward(wide.data(), ones.data(), exact_dx.data(), count);
  for (const std::string& name : test::available_isas()) {
    const test::IsaScope scope(name);
    std::vector<float> y(x.size()), dx(x.size());
    gelu({}, {.rows = 1, .width = count}, x.data(), y.data());
    gelu_backward({}, {.rows = 1, .width = count}, x.data(), dy.data(), dx.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(y[i], exact_y[i], 4e-7 * std::min(1.0, std::abs(wide[i])) + 1.2e-7 * std::abs(exact_y[i]))
          << name << ", x " << x[i];
      ASSERT_NEAR(dx[i], exact_dx[i], 8e-7) << name << ", x " << x[i];
    }
  }
}

TEST(Gelu, EveryTypeInPlaceWithAnyNumberOfThreads) {
  const std::size_t rows = 31, width = 321;
  for (const DType dtype : kTypes) {
    const Gelu shape{.rows = rows, .width = width, .dtype = dtype};
    const Values x(dtype, normal_values(rows * width, 4)), dy(dtype, normal_values(rows * width, 6));
    Values y(dtype, x.size()), dx(dtype, x.size()), dx3 = x;
    gelu({.threads = 3}, shape, x.data(), y.data());
    gelu_backward({.threads = 1}, shape, x.data(), dy.data(), dx.data());
    gelu_backward({.threads = 3}, shape, dx3.data(), dy.data(), dx3.data());
    EXPECT_TRUE(dx == dx3);
    const std::vector<double> exact = x.widened(), gradient = dy.widened();
    std::vector<double> expected(x.size()), expected_dx(x.size());
    gelu_range(exact.data(), expected.data(), static_cast<std::int64_t>(rows * width));
    gelu_range_backward(exact.data(), gradient.data(), expected_dx.data(), static_cast<std::int64_t>(rows * width));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(y[i], expected[i], 4 * unit_of(dtype) * std::max(1.0, std::abs(expected[i]))) << i;
      ASSERT_NEAR(dx[i], expected_dx[i], 4 * unit_of(dtype) * std::max(1.0, std::abs(gradient[i]))) << i;
    }
  }
}

TEST(Swiglu, GradientsByFiniteDifferences) {
  const std::vector<double> a = normal_values(20, 1), b = normal_values(20, 2), dy = normal_values(20, 3);
  std::vector<double> da(20), db(20);
  swiglu_range_backward(a.data(), b.data(), dy.data(), da.data(), db.data(), 20);
  const auto loss = [&](const std::vector<double>& at, const std::vector<double>& gate) {
    std::vector<double> y(20);
    swiglu_range(at.data(), gate.data(), y.data(), 20);
    return dot(y, dy);
  };
  expect_gradient("da", a, da, [&](const auto& at) { return loss(at, b); });
  expect_gradient("db", b, db, [&](const auto& at) { return loss(a, at); });
}

TEST(Swiglu, LargeArgumentsStayFinite) {
  const float ab[] = {-200, 200, 0, -90, 1, 1, 5, 1e30f}, dy[] = {1, 1, 1, 1};
  float y[4], dab[8];
  swiglu({}, {.rows = 1, .width = 4}, ab, y);
  swiglu_backward({}, {.rows = 1, .width = 4}, ab, dy, dab);
  const float *const da = dab, *const db = dab + 4;
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 200);
  EXPECT_EQ(y[2], 0);
  for (const float value : {da[0], da[1], da[2], db[0], db[1], db[2]}) EXPECT_TRUE(std::isfinite(value));
  EXPECT_FLOAT_EQ(da[2], 2.5f) << "silu'(0) = 1/2";
}

TEST(Swiglu, EveryTypeInPlaceWithAnyNumberOfThreads) {
  const std::size_t rows = 31, width = 321;
  for (const DType dtype : kTypes) {
    const Swiglu shape{.rows = rows, .width = width, .dtype = dtype};
    const Values ab(dtype, normal_values(2 * rows * width, 4)), dy(dtype, normal_values(rows * width, 6));
    Values y(dtype, rows * width), dab(dtype, 2 * rows * width), dab3 = ab;
    swiglu({.threads = 3}, shape, ab.data(), y.data());
    swiglu_backward({.threads = 1}, shape, ab.data(), dy.data(), dab.data());
    swiglu_backward({.threads = 3}, shape, dab3.data(), dy.data(), dab3.data());
    EXPECT_TRUE(dab == dab3);
    const std::vector<double> exact = ab.widened();
    std::vector<double> expected(width);
    for (std::size_t row = 0; row < rows; ++row) {
      const double* const a = exact.data() + row * 2 * width;
      swiglu_range(a, a + width, expected.data(), std::int64_t{width});
      for (std::size_t i = 0; i < width; ++i) {
        EXPECT_NEAR(y[row * width + i], expected[i], 2 * unit_of(dtype) * std::max(1.0, std::abs(expected[i]))) << i;
      }
    }
  }
}

}  // namespace
}  // namespace strobe::ops
