#include "ops/gelu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/cpu/gelu.h"
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

// From torch.nn.functional.gelu in float64; that by tanh is 0.84119 at 1.
TEST(Gelu, KnownValues) {
  const double x[] = {-3, -1, 0, 1, 2.5};
  const double expected[] = {-0.004049694095, -0.158655253931, 0, 0.841344746069, 2.484475836686};
  double y[5];
  gelu_range(x, y, 5);
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(y[i], expected[i], 1e-11) << x[i];
}

TEST(Gelu, FloatsAgreeWithFloat64OverTheirWholeRange) {
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

}  // namespace
}  // namespace strobe::ops
