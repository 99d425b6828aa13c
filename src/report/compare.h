// Compares two sets of rows cell by cell, for `strobe compare`, and formats the comparison.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "report/cells.h"
#include "report/ratio.h"

namespace strobe::report {

// One pass of one cell that both sides timed.
struct PassComparison {
  Pass pass;
  double seconds_a, seconds_b;  // as launch_seconds() returns them
  Ratio ratio;
  Verdict verdict;
};

struct CellComparison {
  Config config;
  std::string implementation;
  std::string status_a, status_b;
  std::vector<PassComparison> passes;  // empty if a status is not ok
  std::optional<double> memory_ratio;  // peak memory of B / peak memory of A
};

// Cells that only one side has.
struct Unmatched {
  std::vector<std::string> cells;  // "flash2: batch 1, ..."
  std::string difference;          // nearest_text() of the first cell: "threads 1 instead of 2"
};

struct Comparison {
  std::string name_a, name_b;  // names of the two files
  double threshold = 0.05;
  std::vector<CellComparison> cells;
  Unmatched only_a, only_b;
  std::vector<std::string> notes;  // reasons to distrust the comparison

  std::size_t count(Verdict verdict) const;  // number of passes with this verdict
};

struct Side {
  std::string name;
  std::vector<Result> results;
};

// Splits the launches of every cell into two sides, with odd and even launch numbers. Comparing the two sides shows the
// noise of one build. Throws Error(invalid_argument) if a cell has only one launch.
std::pair<Side, Side> split_launches(const Side& side);

// Compares the cells that both sides have, matched by configuration and implementation. If the machines differ, adds a
// note. Throws Error(invalid_argument) with the keys that differ if the sides have no cell in common.
Comparison compare(const Side& a, const Side& b, double threshold);

// For a terminal: the names and the table; remarks on changed statuses, on cells that only one side has, and the notes;
// the number of cells per verdict.
std::string comparison_table(const Comparison& comparison);
std::vector<std::string> comparison_notes(const Comparison& comparison);
std::string comparison_summary(const Comparison& comparison);

std::string comparison_markdown(const Comparison& comparison);  // for a pull request

}  // namespace strobe::report
