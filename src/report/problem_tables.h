// Markdown tables of report.md: one table per quantity, one row per problem, one column per implementation.
#pragma once

#include <span>
#include <string>

#include "report/figure.h"

namespace strobe::report {

// Returns tables of the times of each pass, memory saved for backward and peak memory, per dtype and causal setting. A
// cell without a value shows its status unless that is ok. The heading has the sizes that all rows share.
std::string problem_tables(std::span<const Cell> cells);

// The speedup and memory ratio maps of a report.
std::string map_tables(std::span<const Figure> figures);

}  // namespace strobe::report
