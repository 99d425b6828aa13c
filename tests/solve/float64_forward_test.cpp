// Tests solve/float64_forward, which computes the answers of the course's cases, against the kernel `reference`.
#include "solve/case_files.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "solve/solver.h"

namespace strobe::solve {
namespace {

std::vector<float> inputs_of(const ProblemSize& size, float factor) {
  std::vector<float> inputs(static_cast<std::size_t>(3 * size.total()));
  uniform_values(3, 0, 3 * size.total(), inputs.data());
  for (float& value : inputs) value *= factor;
  return inputs;
}

double largest_difference(const ProblemSize& size, float factor) {
  const std::vector<float> inputs = inputs_of(size, factor);
  std::vector<float> ours(static_cast<std::size_t>(size.total()), NAN), reference(ours);
  float64_forward(size, inputs.data(), ours.data());
  forward(attention_of(size, size.batch, inputs.data()), outputs_of(size, size.batch, reference.data()),
          {.kernel = "reference"});
  double largest = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double off = std::abs(static_cast<double>(ours[i]) - static_cast<double>(reference[i]));
    if (!(off <= largest)) largest = off;  // also if `off` is NaN
  }
  return largest;
}

// 1 / sqrt(d) is a power of two, which fp32 represents exactly. Both float64 results then round to the same float,
// except near ties.
TEST(Float64Forward, EqualsTheReference) {
  EXPECT_LE(largest_difference({2, 600, 64}, 1), 0x1p-23);
  EXPECT_LE(largest_difference({3, 256, 16}, 1), 0x1p-23);
  EXPECT_LE(largest_difference({1, 1, 1}, 1), 0x1p-23);
  EXPECT_LE(largest_difference({5, 259, 4}, 1), 0x1p-23);
}

// For other d, `reference` rounds 1 / sqrt(d) to fp32, so the results differ slightly.
TEST(Float64Forward, IsCloseToTheReferenceForOtherHeadDimensions) {
  EXPECT_LE(largest_difference({2, 300, 37}, 1), 2e-6);
  EXPECT_LE(largest_difference({1, 70, 300}, 1), 2e-6);
}

TEST(Float64Forward, IsAccurateForScoresOfManyMagnitudes) {
  EXPECT_LE(largest_difference({1, 513, 64}, 30), 0x1p-17);  // probabilities from 1 to below the smallest float
  EXPECT_LE(largest_difference({1, 513, 64}, 0.001f), 0x1p-30);
}

}  // namespace
}  // namespace strobe::solve
