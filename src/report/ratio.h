// The ratio of two measurements with its bootstrap interval and verdict. compare calls this.
#pragma once

#include <cstddef>
#include <vector>

namespace strobe::report {

// Samples of one process launch, in seconds. Never empty.
using Launch = std::vector<double>;

// Below this number of launches on either side, the deviation between launches cannot be estimated from the data.
inline constexpr std::size_t kEnoughLaunches = 5;

// Relative standard deviation between launches that is then assumed as a lower bound. compare prints the assumption.
inline constexpr double kLaunchDeviation = 0.01;

struct Ratio {
  double value = 1;          // time of B over time of A
  double low = 1, high = 1;  // 95 % interval
  std::size_t launches = 0;  // number on the side with fewer launches
};

// Resamples whole launches with replacement. Samples of one process share its memory layout and time of measurement, so
// a thousand of them may agree and still be biased. Deterministic.
Ratio bootstrap_ratio(const std::vector<Launch>& a, const std::vector<Launch>& b);

// Location of all launches in seconds: the smallest of their lower quartiles. The ratio uses this.
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
