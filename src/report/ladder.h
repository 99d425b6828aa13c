// Formats the rows of `strobe ladder` as tables and charts. The ladder is the course's series of kernels, from
// sequential code to the fastest GPU kernel; each kernel is a rung. strobe-lab measures them and writes the rows.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "report/figure.h"
#include "results/table.h"

namespace strobe::report {

// Reads a file that `strobe ladder` wrote. Throws Error(invalid_argument), "FILE, line N: what is wrong".
std::vector<Json> read_ladder_rows(const std::string& path);

// As read_ladder_rows(), for text. `name` is the file's name in errors.
std::vector<Json> parse_ladder_rows(std::string_view text, const std::string& name);

// Returns one table per case and kind of row: rungs, ablation, tiles, counters. With several cases, a further table has
// each rung's speedup over the sequential rung by case. Missing values are "-", missing counters "not available".
// Throws Error(invalid_argument) if a row lacks a key that its kind requires.
std::vector<Table> ladder_tables(std::span<const Json> rows);

struct PublishedTime {
  std::string rung;
  double seconds;
};
// Parses lines "rung,seconds"; lines that begin with # are comments. Throws Error(invalid_argument) with the line
// number.
std::vector<PublishedTime> read_published(std::string_view csv);
std::vector<PublishedTime> published_times();  // ladder_gtx1080.csv, the published times of case 28

// Returns one chart per case with the time of every rung; the chart of case 28 also has the published times. If
// counters were measured for two or more cases, adds one chart per counter against the number of scores.
std::vector<Figure> ladder_figures(std::span<const Json> rows);

// Formats the "case" of a row as "NAME (batch, rows, dim)": "t28 (4, 16384, 64)".
std::string case_text(const Json& size);

}  // namespace strobe::report
