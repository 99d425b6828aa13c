// Statistics of timing samples: location, spread, and a distribution-free confidence interval.
#pragma once

#include <cstddef>
#include <span>

namespace strobe {

struct Summary {
  std::size_t n = 0;
  double mean = 0;
  double median = 0;
  double min = 0;
  double max = 0;
  double stddev = 0;  // sample standard deviation (n - 1); 0 for n = 1
  double spread = 0;  // interquartile range / median
  double low = 0;     // confidence interval of the median, [low, high]: two order statistics
  double high = 0;
  double confidence = 0;  // probability that [low, high] covers the median: at least 0.95 if n >= 6

  // Half of the interval's width, relative to the median: 0.01 means within 1 %.
  double relative_half_width() const { return median > 0 ? (high - low) / (2 * median) : 0; }
};

// The samples may have any order. An empty span gives n = 0.
Summary summarize(std::span<const double> samples);

// Returns a quantile by linear interpolation between order statistics (type 7). `fraction` is in [0, 1]; `sorted` must
// not be empty.
double quantile(std::span<const double> sorted, double fraction);

}  // namespace strobe
