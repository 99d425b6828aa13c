// Formats rows of `strobe comm` as a table and as charts.
#pragma once

#include <span>
#include <vector>

#include "core/json.h"
#include "report/figure.h"
#include "report/ladder.h"

namespace strobe::report {

// One table of all rows. Throws Error(invalid_argument) if a row lacks a required key.
Table collective_table(std::span<const Json> rows);

// One chart per operation: bus bandwidth against size, one line per engine and number of ranks.
std::vector<Figure> collective_figures(std::span<const Json> rows);

}  // namespace strobe::report
