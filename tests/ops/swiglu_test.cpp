#include "ops/swiglu.h"

#include <gtest/gtest.h>

#include "ops/cpu/swiglu.h"
#include "ops/differences.h"
#include "ops/tensors.h"

namespace strobe::ops {
namespace {

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
