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

std::string bytes_text(std::size_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 0x1p30) return fmt::format("{:.2f} GiB", value / 0x1p30);
  if (value >= 0x1p20) return fmt::format("{:.1f} MiB", value / 0x1p20);
  if (value >= 0x1p10) return fmt::format("{:.1f} KiB", value / 0x1p10);
  return fmt::format("{} B", bytes);
}

std::string exact_bytes_text(std::size_t bytes) { return fmt::format("{} ({} bytes)", bytes_text(bytes), bytes); }

}  // namespace strobe
