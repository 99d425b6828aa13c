// Implements decide() and warmed_up() as pure functions of the samples and the elapsed time.
#include "measure/stopping_rule.h"

#include <algorithm>

#include "core/statistics.h"

namespace strobe {

Stop decide(const StoppingRule& rule, std::span<const double> samples, double elapsed) {
  const auto n = static_cast<int>(samples.size());
  if (rule.repeats > 0) return n >= rule.repeats ? Stop::repeats : Stop::not_yet;
  if (n >= rule.least_samples && summarize(samples).relative_half_width() <= rule.interval) return Stop::interval;
  if (elapsed >= rule.time_limit && n >= rule.least_at_limit) return Stop::time_limit;
  return Stop::not_yet;
}

bool warmed_up(std::span<const double> calls, double elapsed, double limit) {
  if (calls.empty()) return false;
  if (elapsed >= limit) return true;
  if (calls.size() < 3 || elapsed < 0.2) return false;
  if (elapsed >= 1.2) return true;
  const auto last = calls.last(3);
  const auto [low, high] = std::minmax_element(last.begin(), last.end());
  return *high <= 1.1 * *low;
}

}  // namespace strobe
