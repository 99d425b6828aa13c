// Gradients by finite differences in float64.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

namespace strobe::ops {

inline std::vector<double> normal_values(std::size_t count, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(count);
  for (double& value : values) value = normal(rng);
  return values;
}

// loss(x) around x against `gradient`, element by element.
inline void expect_gradient(const char* what, std::vector<double> x, const std::vector<double>& gradient,
                            const std::function<double(const std::vector<double>&)>& loss, double tolerance = 1e-7) {
  ASSERT_EQ(x.size(), gradient.size()) << what;
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    x[i] = at + kStep;
    const double above = loss(x);
    x[i] = at - kStep;
    const double below = loss(x);
    x[i] = at;
    const double found = (above - below) / (2 * kStep);
    EXPECT_NEAR(gradient[i], found, tolerance * std::max(1.0, std::abs(found))) << what << ' ' << i;
  }
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace strobe::ops
