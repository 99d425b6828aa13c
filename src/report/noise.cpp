// Implements noise_text().
#include "report/noise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace strobe::report {

std::string noise_text(std::span<const Cell> cells) {
  std::size_t medians = 0, unsettled = 0;
  double widest = 0, least_load = HUGE_VAL, most_load = 0;
  std::int64_t cores = 0;
  std::string where;
  for (const Cell& cell : cells) {
    for (const Pass pass : {Pass::forward, Pass::backward, Pass::step}) {
      const std::optional<double> seconds = cell.seconds(pass);
      const std::optional<Interval> interval = cell.interval(pass);
      if (!seconds || !interval || *seconds <= 0) continue;
      const double half = (interval->high - interval->low) / (2 * *seconds);
      const bool is_unsettled = half > kSettled || interval->low >= interval->high;  // a single sample is unsettled
      ++medians;
      unsettled += is_unsettled ? 1 : 0;
      if (half <= widest) continue;
      widest = half;
      where = cell.implementation + " " + name_of(pass);
    }
    for (const Result& launch : cell.launches) {
      if (!launch.load) continue;
      least_load = std::min(least_load, *launch.load);
      most_load = std::max(most_load, *launch.load);
      cores = std::max(cores, launch.cores);
    }
  }
  if (medians == 0) return "";
  std::string text = unsettled == 0 ? fmt::format("All {} medians are settled within {:g} %", medians, 100 * kSettled)
                                    : fmt::format("{} of {} medians are not settled within {:g} %", unsettled, medians,
                                                  100 * kSettled);
  if (unsettled > 0 && widest > 0) text += fmt::format(" (widest: within {:.1f} %, {})", 100 * widest, where);
  if (most_load == 0 && !std::isfinite(least_load)) return text;
  text += least_load == most_load ? fmt::format("; load average {:.1f}", most_load)
                                  : fmt::format("; load average {:.1f} to {:.1f}", least_load, most_load);
  return text + (cores > 0 ? fmt::format(" on {} core{}", cores, cores == 1 ? "" : "s") : "");
}

}  // namespace strobe::report
