// Float64 answer of a case, for all rows or for a sample. measure.cpp checks a rung with it before timing.
#pragma once

#include <cstdint>
#include <vector>

#include "lab/rung.h"

namespace strobe::lab {

class Answer {
 public:
  // Computes all rows if that takes at most `most_flops`. Otherwise it computes evenly spaced rows, including the first
  // and the last.
  explicit Answer(const RungProblem& problem, double most_flops = 4e9);

  // Returns the largest |o - answer| over the computed rows; infinity if an element is NaN.
  double largest_error(const float* o) const;

  std::int64_t rows() const { return static_cast<std::int64_t>(rows_.size()); }

 private:
  int dim_;
  std::vector<std::int64_t> rows_;  // indices into [batch * rows]
  std::vector<double> values_;      // [rows(), dim]
};

}  // namespace strobe::lab
