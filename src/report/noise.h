// States how noisy the measurements of a report are.
#pragma once

#include <span>
#include <string>

#include "report/cells.h"

namespace strobe::report {

// A median is settled if half the width of its 95 % interval is at most this share of the median, as in bench's
// stopping rule.
inline constexpr double kSettled = 0.01;

// Returns "17 of 144 medians are not settled within 1 % (widest: within 8.4 %, standard forward); load average 0.3
// to 4.2 on 2 cores"; empty if no cell has times. The load averages are from before the measurements.
std::string noise_text(std::span<const Cell> cells);

}  // namespace strobe::report
