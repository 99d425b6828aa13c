// Formats numbers without an exponent.
#include "core/short_number.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace strobe {

std::string short_number(double value) {
  if (value == 0 || !std::isfinite(value)) return "0";
  const int digits = static_cast<int>(std::floor(std::log10(std::fabs(value))));
  return fmt::format("{:.{}f}", value, std::clamp(2 - digits, 0, 9));
}

std::string count_text(double mean) { return fmt::format("{:.{}f}", mean, mean == std::floor(mean) ? 0 : 2); }

}  // namespace strobe
