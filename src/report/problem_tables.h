// One Markdown table per quantity: one row per problem, one column per implementation. Part of a report's report.md.
#pragma once

#include <span>
#include <string>

#include "report/figure.h"

namespace strobe::report {

// Times of each pass, memory held before the backward and peak memory, for each type and causal setting. A cell without
// a figure shows its status unless that is ok. Sizes that all rows share are in the heading.
std::string problem_tables(std::span<const Cell> cells);

// The speed-up and memory ratio maps of a report.
std::string map_tables(std::span<const Figure> figures);

}  // namespace strobe::report
