// Statistics of samples. The confidence interval uses order statistics, where x(r) is the r-th smallest of n samples.
// For any continuous distribution, the number of samples below the median is binomial(n, 1/2). So [x(r), x(n + 1 - r)]
// covers the median with probability 1 - 2 P(binomial < r).
#include "core/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace strobe {
namespace {

struct Ranks {
  std::size_t low;  // 1-based; the upper rank is n + 1 - low
  double confidence;
};

Ranks median_ranks(std::size_t n) {
  const double log_half = std::log(0.5) * static_cast<double>(n);
  const double log_n = std::lgamma(static_cast<double>(n) + 1);
  double below = 0;  // P(binomial(n, 1/2) < low)
  Ranks ranks{1, 1 - 2 * std::exp(log_half)};
  for (std::size_t low = 1; 2 * low <= n; ++low) {
    const auto k = static_cast<double>(low - 1);
    below += std::exp(log_n - std::lgamma(k + 1) - std::lgamma(static_cast<double>(n) - k + 1) + log_half);
    if (below > 0.025) break;
    ranks = {low, 1 - 2 * below};
  }
  return ranks;
}

}  // namespace

double quantile(std::span<const double> sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  if (below + 1 >= sorted.size()) return sorted.back();
  const double part = position - static_cast<double>(below);
  return sorted[below] + part * (sorted[below + 1] - sorted[below]);
}

Summary summarize(std::span<const double> samples) {
  Summary summary;
  summary.n = samples.size();
  if (samples.empty()) return summary;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const auto n = static_cast<double>(sorted.size());
  summary.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / n;
  summary.median = quantile(sorted, 0.5);
  summary.min = sorted.front();
  summary.max = sorted.back();
  if (sorted.size() > 1) {
    double squares = 0;
    for (const double x : sorted) squares += (x - summary.mean) * (x - summary.mean);
    summary.stddev = std::sqrt(squares / (n - 1));
  }
  if (summary.median > 0) summary.spread = (quantile(sorted, 0.75) - quantile(sorted, 0.25)) / summary.median;
  const Ranks ranks = median_ranks(sorted.size());
  summary.low = sorted[ranks.low - 1];
  summary.high = sorted[sorted.size() - ranks.low];
  summary.confidence = std::max(0.0, ranks.confidence);
  return summary;
}

}  // namespace strobe
