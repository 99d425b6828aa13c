// Rows of `strobe comm` as a table and as charts.
#pragma once

#include <span>
#include <vector>

#include "core/json.h"
#include "report/figure.h"
#include "report/ladder.h"

namespace strobe::report {

// One table of all rows. Throws Error(invalid_argument) for a row that lacks what every row has.
NamedTable collective_table(std::span<const Json> rows);

// A chart an operation: bandwidth of the bus against the size, a line an engine and number of ranks.
std::vector<Figure> collective_figures(std::span<const Json> rows);

}  // namespace strobe::report
