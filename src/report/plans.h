// Formats rows of `strobe plan` as tables and as charts.
#pragma once

#include <span>
#include <vector>

#include "core/json.h"
#include "report/figure.h"
#include "results/table.h"

namespace strobe::report {

// Returns tables with one column per sharding strategy. Two tables split memory and time into parts, for the first
// number of devices. With several numbers of devices, three more have the step time, the smallest batch that overlaps
// communication, and the memory. `rows` must be grouped by number of devices, with the same strategies in the same
// order in each group. Throws Error(invalid_argument) if a row lacks a required key.
std::vector<Table> plan_tables(std::span<const Json> rows);

// Returns charts of step time and memory per device against the number of devices, with one line per sharding strategy.
// Empty if `rows` has only one number of devices.
std::vector<Figure> plan_figures(std::span<const Json> rows);

}  // namespace strobe::report
