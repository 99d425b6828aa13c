// Valid ranges of numbers in result files. They keep all charts, ratios and sums finite.
#pragma once

#include <string_view>

#include "core/json.h"

namespace strobe {

struct Range {
  double least, most;
  bool zero = false;  // 0 is valid too
  const char* unit;
};

inline constexpr Range kSecondsRange{1e-12, 1e9, false, "seconds"};
inline constexpr Range kSpanRange{1e-12, 1e9, true, "seconds"};  // time of a part of a step, which may be 0
inline constexpr Range kMegabytesRange{1e-7, 1e12, true, "MB"};
inline constexpr Range kMemoryRange{0.1, 1.1e18, true, "bytes"};
inline constexpr Range kBytesRange{1, 1e18, false, "bytes"};
inline constexpr Range kTeraflopsRange{1e-24, 1e9, true, "TFLOP/s"};
inline constexpr Range kFlopRateRange{1e-12, 1e21, true, "FLOP/s"};
inline constexpr Range kByteRateRange{1e-12, 1e18, true, "bytes/s"};
inline constexpr Range kFlopsRange{1, 1e30, true, "FLOP"};
inline constexpr Range kCountRange{1, 1e18, true, ""};
inline constexpr Range kCounterRange{1e-12, 1e18, true, ""};  // profiler counters
inline constexpr Range kShareRange{1e-12, 1, true, ""};
inline constexpr Range kLoadRange{1e-12, 1e6, true, ""};  // load average
inline constexpr Range kErrorRange{1e-300, 1e300, true, ""};

constexpr bool holds(const Range& range, double value) {
  return (range.zero && value == 0) || (value >= range.least && value <= range.most);
}

// "0, or 1e-07 to 1e+12 MB"
std::string range_text(const Range& range);

// Returns `value` as a number. Throws Error(invalid_argument), "NAME is 1e+306; valid: 1e-12 to 1e+09 seconds", unless
// it is a number in the range.
double checked_number(std::string_view name, const Json& value, const Range& range);

}  // namespace strobe
