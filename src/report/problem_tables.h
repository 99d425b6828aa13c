// Markdown tables of a report's report.md: one per quantity, with one row per problem and one column per
// implementation.
#pragma once

#include <span>
#include <string>

#include "report/figure.h"

namespace strobe::report {

// Times of each pass, memory saved for backward and peak memory, for each type and causal setting. A cell without a
// value shows its status unless that is ok. Sizes that all rows share are in the heading.
std::string problem_tables(std::span<const Cell> cells);

// The speedup and memory ratio maps of a report.
std::string map_tables(std::span<const Figure> figures);

}  // namespace strobe::report
