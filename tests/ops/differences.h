// Checks gradients by finite differences.
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

// Compares the float64 finite differences of loss(x) around x with `gradient`, element by element.
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

// Returns random integers from -4 to 4. Sums of a few products of such values are exact.
inline std::vector<float> whole_values(std::size_t count, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng() % 9) - 4;
  return values;
}

// Like expect_gradient(), for a loss that is linear in x and that the operation computes in fp32. With integer values,
// differences with a step of 1 are exact.
inline void expect_linear_gradient(const char* what, std::vector<float> x, const std::vector<float>& gradient,
                                   const std::function<double(const std::vector<float>&)>& loss) {
  ASSERT_EQ(x.size(), gradient.size()) << what;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] += 1;
    const double above = loss(x);
    x[i] -= 2;
    const double below = loss(x);
    x[i] += 1;
    EXPECT_EQ(gradient[i], (above - below) / 2) << what << ' ' << i;
  }
}

template <class T>
double dot(const std::vector<T>& a, const std::vector<T>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace strobe::ops
