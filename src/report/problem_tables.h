// Creates the Markdown tables of report.md: one table per quantity, one row per problem, one column per implementation.
#pragma once

#include <span>
#include <string>

#include "report/figure.h"

namespace strobe::report {

// Returns, for each dtype and causal setting, tables of the time of each pass, of the memory saved for backward and of
// peak memory. A failed cell shows its status. Sizes that all rows share are in the heading.
std::string problem_tables(std::span<const Cell> cells);

// Returns the speedup and memory ratio maps of a report as tables.
std::string map_tables(std::span<const Figure> figures);

}  // namespace strobe::report
