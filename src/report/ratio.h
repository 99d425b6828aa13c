// The ratio of two measurements with its bootstrap interval, and the verdict on it. compare calls.
#pragma once

#include <cstddef>
#include <vector>

namespace strobe::report {

// Samples of one process launch, in seconds. Never empty.
using Launch = std::vector<double>;

// With fewer launches than this on either side, what one launch differs from the next is not known from the data.
inline constexpr std::size_t kEnoughLaunches = 5;

// It is then taken to be at least this much of the time, a standard deviation: an assumption, which compare says it
// makes.
inline constexpr double kLaunchDeviation = 0.01;

struct Ratio {
  double value = 1;          // time of B over time of A
  double low = 1, high = 1;  // 95 % interval
  std::size_t launches = 0;  // of the side that has fewer
};

// Launches are drawn with replacement, whole ones: samples of one process share its memory layout and its moment, so
// that a thousand of them may agree and still all be off. Same input, same result.
Ratio bootstrap_ratio(const std::vector<Launch>& a, const std::vector<Launch>& b);

// Seconds that stand for all launches: the least of their lower quartiles. The ratio is that of two of these.
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

// slower, faster: the whole interval is beyond the threshold (0.05: 5 %), and either side has been launched more than
// once: one launch may be off by any amount, with all of its samples. same: all of it is within. Else ambiguous.
Verdict verdict_on(const Ratio& ratio, double threshold);

}  // namespace strobe::report
