// Rows of the ladder (made by strobe-lab) as tables and charts. `strobe ladder` and strobe-lab call.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "report/figure.h"
#include "report/named_table.h"

namespace strobe::report {

// The rows of a file that `strobe ladder` wrote. Throws Error(invalid_argument), "FILE, line N: what is wrong".
std::vector<Json> read_ladder_rows(const std::string& path);

// The same for a text; `name` stands for the file in errors.
std::vector<Json> parse_ladder_rows(std::string_view text, const std::string& name);

// One table a case and kind of rows: rungs, ablation, tiles, counters; and with several cases the speed-up over the
// sequential rung by case. What was not measured is "-", what no counter told "not available", nothing ever 0.
// Throws Error(invalid_argument) for a row that lacks what every row of its kind has.
std::vector<NamedTable> ladder_tables(std::span<const Json> rows);

struct PublishedTime {
  std::string rung;
  double seconds;
};
// Lines "rung,seconds"; those that begin with # are words. Throws Error(invalid_argument) with the line.
std::vector<PublishedTime> read_published(std::string_view csv);
std::vector<PublishedTime> published_times();  // ladder_gtx1080.csv: case 28

// A chart a case: time of every rung, and the published ones beside it for case 28. With counters of two cases or more
// a chart a counter against the number of scores.
std::vector<Figure> ladder_figures(std::span<const Json> rows);

// "t28 (4, 16384, 64)", of a row's "case"
std::string case_text(const Json& size);

}  // namespace strobe::report
