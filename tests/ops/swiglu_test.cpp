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
  const float a[] = {-200, 200, 0, -90}, b[] = {1, 1, 5, 1e30f}, dy[] = {1, 1, 1, 1};
  float y[4], da[4], db[4];
  swiglu({}, DType::fp32, 4, a, b, y);
  swiglu_backward({}, DType::fp32, 4, a, b, dy, da, db);
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 200);
  EXPECT_EQ(y[2], 0);
  for (const float value : {da[0], da[1], da[2], db[0], db[1], db[2]}) EXPECT_TRUE(std::isfinite(value));
  EXPECT_FLOAT_EQ(da[2], 2.5f) << "silu'(0) = 1/2";
}

TEST(Swiglu, EveryTypeInPlaceWithAnyNumberOfThreads) {
  const std::size_t count = 10'001;
  for (const DType dtype : kTypes) {
    const Values a(dtype, normal_values(count, 4)), b(dtype, normal_values(count, 5)),
        dy(dtype, normal_values(count, 6));
    Values y(dtype, count), da(dtype, count), db(dtype, count), da3 = a, db3 = b;
    swiglu({.threads = 3}, dtype, std::int64_t{count}, a.data(), b.data(), y.data());
    swiglu_backward({.threads = 1}, dtype, std::int64_t{count}, a.data(), b.data(), dy.data(), da.data(), db.data());
    swiglu_backward({.threads = 3}, dtype, std::int64_t{count}, da3.data(), db3.data(), dy.data(), da3.data(),
                    db3.data());
    EXPECT_TRUE(da == da3);
    EXPECT_TRUE(db == db3);
    std::vector<double> expected(count);
    swiglu_range(a.widened().data(), b.widened().data(), expected.data(), std::int64_t{count});
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_NEAR(y[i], expected[i], 2 * unit_of(dtype) * std::max(1.0, std::abs(expected[i]))) << i;
    }
  }
}

}  // namespace
}  // namespace strobe::ops
