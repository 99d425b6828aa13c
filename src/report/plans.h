// Formats rows of `strobe plan` as tables and as charts.
#pragma once

#include <span>
#include <vector>

#include "core/json.h"
#include "report/figure.h"
#include "report/named_table.h"

namespace strobe::report {

// Returns tables. The first have memory and time by part for the first number of devices. Further tables have the step
// time, the smallest batch that overlaps communication, and the memory for all numbers of devices. One column per
// sharding strategy. Rows are grouped by number of devices; each group has the same strategies in the same order.
// Throws Error(invalid_argument) if a row lacks a required key.
std::vector<NamedTable> plan_tables(std::span<const Json> rows);

// Step time and memory per device against the number of devices, one line per sharding strategy. Empty for a single
// number of devices.
std::vector<Figure> plan_figures(std::span<const Json> rows);

}  // namespace strobe::report
