// Sizes for tests of operations on the GPU, and the comparison of their results with the CPU's.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <vector>

#include "ops/differences.h"
#include "ops/tensors.h"

namespace strobe::ops {

// Allows an error of `units` ulp of 1 in the dtype, relative to the value if its magnitude exceeds 1. In fp32 allows 16
// times as much, because the GPU sums in another order.
inline void expect_close(const char* what, const Values& found, const Values& expected, double units) {
  ASSERT_EQ(found.size(), expected.size());
  int shown = 0;
  for (std::size_t i = 0; i < found.size() && shown < 5; ++i) {
    const double unit = found.dtype() == DType::fp32 ? 16 * unit_of(DType::fp32) : unit_of(found.dtype());
    const double allowed = units * unit * std::max(1.0, std::abs(expected[i]));
    if (!(std::abs(found[i] - expected[i]) <= allowed)) {
      ADD_FAILURE() << what << ' ' << name_of(found.dtype()) << " [" << i << "]: " << found[i] << ", on the CPU "
                    << expected[i];
      ++shown;
    }
  }
}

inline void expect_close(const char* what, const std::vector<float>& found, const std::vector<float>& expected,
                         double units) {
  const auto of = [](const std::vector<float>& values) {
    return Values(DType::fp32, std::vector<double>(values.begin(), values.end()));
  };
  expect_close(what, of(found), of(expected), units);
}

struct Size {
  std::int64_t rows, width;
  std::size_t skip;
};
inline constexpr Size kSizes[] = {{1, 1, 0},    {1, 768, 0},  {37, 131, 0}, {33, 1600, 0}, {9, 64, 1},
                                  {700, 24, 0}, {5, 7, 0},    {5, 8, 0},    {6, 1608, 0},  {7, 512, 1},
                                  {3, 513, 0},  {4, 2048, 0}, {3, 2056, 0}, {5, 2560, 0},  {2, 4096, 0},
                                  {2, 4104, 0}, {3, 6400, 0}, {1, 6400, 1}, {2, 12032, 0}, {3, 13000, 0}};

// Adds a size with more rows than a grid has blocks in y (at most 65,535), so that blocks process several rows.
inline std::vector<Size> sizes_with_many_rows() {
  std::vector<Size> all(std::begin(kSizes), std::end(kSizes));
  all.push_back({65'540, 8, 0});
  return all;
}

inline std::vector<float> floats(std::size_t count, unsigned seed) {
  const std::vector<double> values = normal_values(count, seed);
  return {values.begin(), values.end()};
}

}  // namespace strobe::ops
