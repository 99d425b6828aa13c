// Limits on rows of results, for `strobe compare --require`: the parser of their file, and the verdicts on cells.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/case_text.h"
#include "report/cells.h"
#include "report/compare.h"
#include "report/named_table.h"

namespace strobe::report {

enum class Measure {
  milliseconds,      // time of the pass
  speedup,           // time of the reference in the same run, divided by that of the cell
  share_of_product,  // FLOP/s, divided by the matmul rate of the same run
  share_of_copy,     // bytes per second that a pass must move, divided by the copy rate of the same run
  share_of_plain,    // rate, divided by that of the same implementation and sizes without masks and options
  peak_mb,           // MB are 2^20 bytes
  memory,            // peak, divided by that of the reference
  change_low,        // ends of the 95 % interval of the ratio of times, B over A
  change_high,
};

struct Bound {
  Measure measure;
  std::string reference;  // reference implementation of speedup and memory
  bool is_least = true;   // true: the value must be at least `limit`; false: at most
  bool is_strict = false;
  double limit = 0;
};

struct Requirement {
  enum class Kind { each, mean, shown };  // each cell's value, their geometric mean, or no limit (shown)
  Kind kind = Kind::each;
  double share = 1;           // share of the values that must meet the limit
  std::vector<Pass> passes;   // empty: the passes that were timed
  std::vector<Bound> bounds;  // alternatives: one of them must hold
  std::string text;           // the requirement as written in the file
  std::vector<CaseWord> cells;
  std::string cells_text;
  std::string implementation;  // "": all implementations
};

struct Limits {
  std::string about;
  std::vector<Requirement> requirements;
};

// Throws Error(invalid_argument), "NAME: line N: what is wrong".
Limits parse_limits(const std::string& name, std::string_view text);

// The description of the file format, for the help.
extern const char* const kLimitsFormat;

struct Judgement {
  std::vector<NamedTable> tables;  // cells, then limits
  std::size_t limits = 0, missed = 0;
};

// Checks B's cells against the limits. `comparison` compares A and B, for limits on a change; null if there are none.
// Throws Error(invalid_argument) if no limit applies to any cell.
Judgement judge(const Limits& limits, std::span<const Cell> cells, const Comparison* comparison, Estimate estimate);

bool needs_comparison(const Limits& limits);

}  // namespace strobe::report
