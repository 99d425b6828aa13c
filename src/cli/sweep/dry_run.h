// `strobe sweep --dry-run`: the cells of a plan with predicted time and memory, as a table.
#pragma once

#include <functional>
#include <string>

#include "cli/sweep/options.h"

namespace strobe::cli {

// `is_known` tells which cells have a row already. Measures the machine's ceilings (half a second a type) unless the
// plan says --quick.
std::string dry_run_text(const SweepPlan& plan,
                         const std::function<bool(const bench::Problem&, const std::string& name)>& is_known);

}  // namespace strobe::cli
