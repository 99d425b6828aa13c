// Rows of `strobe plan` as tables and as charts.
#pragma once

#include <span>
#include <vector>

#include "core/json.h"
#include "report/figure.h"
#include "report/named_table.h"

namespace strobe::report {

// Memory and time of the first number of devices, part by part; then of all numbers of devices the step, the batch from
// which communication hides, and the memory. A column each way of sharding. Rows: by number of devices, each with the
// same ways in the same order. Throws Error(invalid_argument) for a row that lacks what every row has.
std::vector<NamedTable> plan_tables(std::span<const Json> rows);

// Time of a step and memory of a device against the number of devices, a line each way of sharding; none of one number.
std::vector<Figure> plan_figures(std::span<const Json> rows);

}  // namespace strobe::report
