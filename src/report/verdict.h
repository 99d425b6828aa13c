// States in one sentence which implementation is fastest. `bench`, `sweep` and `report` print it after their results.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/cells.h"
#include "report/series_names.h"

namespace strobe::report {

// A lead over one other series: the other's time divided by the leader's, on the problems that both completed.
struct Lead {
  std::string other;
  std::size_t problems = 0;
  double factor = 1;         // geometric mean
  double low = 1, high = 1;  // least and largest factor; with one problem, the interval of its factor
  std::size_t certain = 0;   // problems in which the other's 95 % interval is above the leader's
  std::size_t contrary = 0;  // problems in which the other's interval is below the leader's
  bool is_clear() const { return certain == problems; }
};

struct Standing {
  std::string leader;         // empty if no series has times
  std::size_t won = 0;        // problems in which the leader has the least time
  std::size_t problems = 0;   // problems with a time
  std::size_t launches = 0;   // smallest number of launches of a cell
  Pass pass = Pass::forward;  // total if every measured cell has both passes
  std::vector<Lead> leads;    // nearest first; empty with one series
  bool is_clear() const;
};

// The leader has the least time in most problems; among equals, the one with the least geometric mean. Intervals are
// those of the medians; for the total, the sums of their ends.
Standing standing_of(std::span<const Cell> cells, const SeriesNames& names);

// Returns one sentence; empty with fewer than two series.
std::string verdict_text(const Standing& standing);

}  // namespace strobe::report
