// Computes the time ratio of two measurements, its bootstrap confidence interval and a verdict. compare() uses this.
#pragma once

#include <cstddef>
#include <vector>

namespace strobe::report {

// Samples of one process launch, in seconds. Never empty.
using Launch = std::vector<double>;

// With fewer launches than this on either side, the standard deviation between launches cannot be estimated
// reliably from the data.
inline constexpr std::size_t kEnoughLaunches = 5;

// Lower bound of the relative standard deviation between launches, assumed if either side has fewer than
// kEnoughLaunches. compare() adds a note about it.
inline constexpr double kLaunchDeviation = 0.01;

struct Ratio {
  double value = 1;          // time of B / time of A
  double low = 1, high = 1;  // 95 % interval
  std::size_t launches = 0;  // launches on the side that has fewer
};

// Computes the ratio B / A and its interval by resampling whole launches with replacement. All samples of a process
// share its memory layout and time of measurement, so many samples that agree may still be biased. With fewer than
// kEnoughLaunches, uses a parametric model instead. Equal input gives equal results.
Ratio bootstrap_ratio(const std::vector<Launch>& a, const std::vector<Launch>& b);

// Returns the time in seconds that represents several launches: the smallest of their lower quartiles. The ratio uses
// this.
double launch_seconds(const std::vector<Launch>& launches);

enum class Verdict { faster, slower, same, ambiguous };
constexpr const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::faster: return "faster";
    case Verdict::slower: return "slower";
    case Verdict::same: return "same";
    case Verdict::ambiguous: return "ambiguous";
  }
  return "unknown";
}

// slower, faster: the whole interval is beyond the threshold (0.05: 5 %), and both sides have at least two launches,
// since a single launch may have any bias. same: the whole interval is within the threshold. ambiguous: all other
// cases.
Verdict verdict_on(const Ratio& ratio, double threshold);

}  // namespace strobe::report
