// Reads GPU counters from the output of `ncu --csv --page raw`. `strobe ladder --profile` runs ncu and calls this.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/json.h"

namespace strobe::report {

struct Counter {
  const char* key;    // JSON key
  const char* title;  // column title
  const char* unit;   // "" for a count
};

// The counters that the course requires, in table order.
std::span<const Counter> counters();

// Returns the value of ncu's flag --metrics.
std::string ncu_metrics();

// Returns {"launches": n, "counters": {key: number}} over all kernel launches in the text. Rates and shares are means
// weighted by launch time; bank conflicts are summed. A counter is null if any launch lacks it. Throws
// Error(invalid_argument) if the text has no table, with ncu's error message if present.
Json read_ncu_csv(std::string_view text);

}  // namespace strobe::report
