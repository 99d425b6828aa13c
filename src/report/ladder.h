// Formats the ladder's rows, which strobe-lab writes, as tables and charts. Used by `strobe ladder` and strobe-lab.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "report/figure.h"
#include "report/named_table.h"

namespace strobe::report {

// Reads the rows of a file from `strobe ladder`. Throws Error(invalid_argument), "FILE, line N: what is wrong".
std::vector<Json> read_ladder_rows(const std::string& path);

// The same for text; `name` is the file's name in errors.
std::vector<Json> parse_ladder_rows(std::string_view text, const std::string& name);

// Returns one table per case and kind of rows: rungs, ablation, tiles, counters. With several cases, one more table has
// the speedup over the sequential rung by case. Unmeasured values are "-", missing counters "not available". Throws
// Error(invalid_argument) for a row that lacks a key of its kind.
std::vector<NamedTable> ladder_tables(std::span<const Json> rows);

struct PublishedTime {
  std::string rung;
  double seconds;
};
// Parses lines "rung,seconds"; lines that begin with # are comments. Throws Error(invalid_argument) with the line
// number.
std::vector<PublishedTime> read_published(std::string_view csv);
std::vector<PublishedTime> published_times();  // ladder_gtx1080.csv: case 28

// Returns one chart per case with the time of every rung, and for case 28 the published times. With counters of two or
// more cases, also one chart per counter against the number of scores.
std::vector<Figure> ladder_figures(std::span<const Json> rows);

// "t28 (4, 16384, 64)", from a row's "case"
std::string case_text(const Json& size);

}  // namespace strobe::report
