// Formats rows of `strobe comm` as charts.
#pragma once

#include <span>
#include <vector>

#include "core/json.h"
#include "report/figure.h"

namespace strobe::report {

// One chart per operation: bus bandwidth against size, one line per engine and number of ranks.
std::vector<Figure> collective_figures(std::span<const Json> rows);

}  // namespace strobe::report
