// The float64 answer of a case, on all of its rows or on a sample of them. measure.cpp asks it before anything is
// timed.
#pragma once

#include <cstdint>
#include <vector>

#include "lab/rung.h"

namespace strobe::lab {

class Answer {
 public:
  // All rows where that takes up to `most_flops`; else so many as it allows, spread evenly, first and last among them.
  explicit Answer(const Problem& problem, double most_flops = 4e9);

  // Largest |o - answer| over the rows that are known; infinite where an element is NaN.
  double largest_error(const float* o) const;

  std::int64_t rows() const { return static_cast<std::int64_t>(rows_.size()); }

 private:
  int dim_;
  std::vector<std::int64_t> rows_;  // of [batch * rows]
  std::vector<double> values_;      // [rows(), dim]
};

}  // namespace strobe::lab
