// Implements the bootstrap over launches. Other load can only increase a time. Therefore the location (representative
// time) of a launch is the lower quartile of its samples, and that of several launches the smallest of their locations.
// The interval is that of the ratio of the two smallest locations.
#include "report/ratio.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/philox.h"
#include "core/statistics.h"

namespace strobe::report {
namespace {

constexpr int kDraws = 4000;
constexpr double kQuantile = 0.25;  // quantile of a launch's samples

// Deterministic random numbers: draw n depends only on n.
class Draws {
 public:
  double uniform() {
    if (used_ == words_.size()) {
      words_ = philox({count_++, 0, 0, 0}, 0x5742);
      used_ = 0;
    }
    return static_cast<double>(words_[used_++]) * 0x1p-32;
  }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(uniform() * static_cast<double>(n)); }
  double normal() {
    double sum = -6;  // a sum of 12 uniform numbers is normal enough for a 95 % interval
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

 private:
  std::uint32_t count_ = 0;
  std::array<std::uint32_t, 4> words_{};
  std::size_t used_ = words_.size();
};

std::vector<Launch> sorted(std::vector<Launch> launches) {
  for (Launch& launch : launches) std::sort(launch.begin(), launch.end());
  return launches;
}

// Returns the logarithms of the launches' locations.
std::vector<double> locations(const std::vector<Launch>& sorted) {
  std::vector<double> values;
  for (const Launch& launch : sorted) values.push_back(std::log(quantile(launch, kQuantile)));
  return values;
}

double least(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }

double drawn_least(const std::vector<double>& values, Draws& draws) {
  double least = values[draws.below(values.size())];
  for (std::size_t i = 1; i < values.size(); ++i) least = std::min(least, values[draws.below(values.size())]);
  return least;
}

// Draws the smallest location of few launches. Keeps every launch, and adds a random sampling error and a random
// deviation between launches. The sampling error: instead of the f-quantile of the n samples (f = kQuantile), takes the
// quantile at a random fraction. The fraction is normally distributed with mean f and standard deviation sqrt(f (1 - f)
// / n), as for the f-quantile of n resampled values.
double drawn_least_of_few(const std::vector<Launch>& sorted, double deviation, Draws& draws) {
  std::vector<double> values;
  for (const Launch& launch : sorted) {
    const double width = std::sqrt(kQuantile * (1 - kQuantile) / static_cast<double>(launch.size()));
    const double fraction = std::clamp(kQuantile + width * draws.normal(), 0.0, 1.0);
    values.push_back(std::log(quantile(launch, fraction)) + deviation * draws.normal());
  }
  return least(values);
}

// Returns the observed standard deviation between launches, but at least kLaunchDeviation.
double deviation_of_few(const std::vector<double>& locations) {
  if (locations.size() < 2) return kLaunchDeviation;
  return std::max(kLaunchDeviation, summarize(locations).stddev);
}

}  // namespace

double launch_seconds(const std::vector<Launch>& launches) { return std::exp(least(locations(sorted(launches)))); }

Ratio bootstrap_ratio(const std::vector<Launch>& a, const std::vector<Launch>& b) {
  const std::vector<Launch> sorted_a = sorted(a), sorted_b = sorted(b);
  const std::vector<double> from = locations(sorted_a), to = locations(sorted_b);
  Ratio ratio{.value = std::exp(least(to) - least(from)), .launches = std::min(a.size(), b.size())};
  const bool enough = ratio.launches >= kEnoughLaunches;
  const double deviation = std::max(deviation_of_few(from), deviation_of_few(to));
  Draws draws;
  std::vector<double> differences;
  for (int i = 0; i < kDraws; ++i) {
    differences.push_back(enough ? drawn_least(to, draws) - drawn_least(from, draws)
                                 : drawn_least_of_few(sorted_b, deviation, draws) -
                                       drawn_least_of_few(sorted_a, deviation, draws));
  }
  std::sort(differences.begin(), differences.end());
  ratio.low = std::exp(quantile(differences, 0.025));
  ratio.high = std::exp(quantile(differences, 0.975));
  return ratio;
}

Verdict verdict_on(const Ratio& ratio, double threshold) {
  const double most = 1 + threshold, least = 1 / most;
  const bool several = ratio.launches > 1;
  if (several && ratio.low > most) return Verdict::slower;
  if (several && ratio.high < least) return Verdict::faster;
  if (ratio.low >= least && ratio.high <= most) return Verdict::same;
  return Verdict::ambiguous;
}

}  // namespace strobe::report
