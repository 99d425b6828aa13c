// States how noisy the measurements of a report are.
#pragma once

#include <span>
#include <string>

#include "report/cells.h"

namespace strobe::report {

// A median is settled if half its 95 % interval is at most this share of it: bench's own stopping rule.
inline constexpr double kSettled = 0.01;

// "17 of 144 medians are not settled within 1 % (the widest interval: 8.4 %, standard forward); load when the
// measurements began: 0.3 to 4.2 on 2 cores". Empty without times.
std::string noise_text(std::span<const Cell> cells);

}  // namespace strobe::report
