// `strobe plan --check`: measured rows, each beside what the plan's formulas say of it.
#pragma once

#include "cli/plan/options.h"

namespace strobe::cli {

// Prints the table and the errors' median; the exit code. A step is held against the machine in its own precision.
// Throws Error(invalid_argument) for rows that nothing is said of.
int check_plan(const PlanOptions& options);

}  // namespace strobe::cli
