// Two sets of rows matched cell by cell, for `strobe compare`; and the texts made of it.
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
  double seconds_a, seconds_b;  // as launch_seconds gives them
  Ratio ratio;
  Verdict verdict;
};

struct CellComparison {
  Config config;
  std::string implementation;
  std::string status_a, status_b;
  std::vector<PassComparison> passes;  // empty where a status is not ok
  std::optional<double> memory_ratio;  // B over A
};

// Cells of one side without a partner on the other.
struct Unmatched {
  std::vector<std::string> cells;  // described
  std::string difference;          // between the first and the nearest of the other side: "threads 1 instead of 2"
};

struct Comparison {
  std::string name_a, name_b;  // of the files
  double threshold = 0.05;
  std::vector<CellComparison> cells;
  Unmatched only_a, only_b;
  std::vector<std::string> notes;  // reasons why the comparison is weak

  std::size_t count(Verdict verdict) const;  // of passes
};

struct Side {
  std::string name;
  std::vector<Result> results;
};

// Launches 1, 3, ... and 2, 4, ... of every cell, as two sides: how alike runs of one build are. Throws
// Error(invalid_argument) if a cell has one launch.
std::pair<Side, Side> split_launches(const Side& side);

// Cells are matched by configuration and implementation; machines and builds may differ, and then a note says so.
// Throws Error(invalid_argument) with the keys that differ if the two have no cell in common.
Comparison compare(const Side& a, const Side& b, double threshold);

std::string comparison_table(const Comparison& comparison);     // for a terminal
std::string comparison_markdown(const Comparison& comparison);  // for a pull request

}  // namespace strobe::report
