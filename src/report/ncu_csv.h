// Counters of the GPU as `ncu --csv --page raw` prints them. `strobe ladder --profile` runs ncu and calls.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/json.h"

namespace strobe::report {

struct Counter {
  const char* key;    // in JSON
  const char* title;  // for people
  const char* unit;   // "" for a count
};

// Those that the course asks for, in the order of the tables.
std::span<const Counter> counters();

// What ncu must be asked for: the value of its flag --metrics.
std::string ncu_metrics();

// {"launches": n, "counters": {key: number}} of all kernel launches in the text together: rates and shares weighted
// with the launches' times, conflicts added up. A counter that a launch lacks is null. Throws Error(invalid_argument)
// where there is no table, with ncu's own reason if it gave one.
Json read_ncu_csv(std::string_view text);

}  // namespace strobe::report
