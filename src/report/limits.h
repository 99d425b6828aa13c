// Parses a file of limits and checks cells against them. `strobe compare --require` uses this.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/case_text.h"
#include "report/cells.h"
#include "report/compare.h"
#include "results/table.h"

namespace strobe::report {

enum class Measure {
  milliseconds,  // time of the pass
  speedup,       // time of the reference implementation on the same machine and build, divided by the cell's time
  share_of_matmul_rate,  // FLOP/s, divided by the matmul rate measured in the same run
  share_of_copy,         // least_bytes() per second, divided by the copy rate measured in the same run
  share_of_plain,        // FLOP/s, divided by the FLOP/s of the same cell without window, options and grouped heads
  peak_mb,               // peak memory; an MB is 2^20 bytes
  memory,                // peak memory, divided by that of the reference
  change_low,            // ends of the 95 % interval of the time ratio B / A
  change_high,
};

struct Bound {
  Measure measure;
  std::string reference;  // for speedup and memory: one or several implementations; the best that ran counts
  bool is_least = true;   // true: the value must be at least `limit`; false: at most
  bool is_strict = false;
  double limit = 0;
};

struct Requirement {
  enum class Kind { each, mean, shown };  // limit on each value, on their geometric mean, or none (shown)
  Kind kind = Kind::each;
  double share = 1;           // share of the values that must meet the limit
  std::vector<Pass> passes;   // empty: all timed passes
  std::vector<Bound> bounds;  // alternatives; at least one must hold
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

// Description of the file format, for --help.
extern const char* const kLimitsFormat;

struct Judgement {
  std::vector<Table> tables;  // the table of cells, then the table of limits
  std::size_t limits = 0, missed = 0;
};

// Checks the cells of file B against the limits. `comparison` compares A and B and may be null unless
// needs_comparison(limits). Throws Error(invalid_argument) if no limit applies to any cell.
Judgement judge(const Limits& limits, std::span<const Cell> cells, const Comparison* comparison, Estimate estimate);

bool needs_comparison(const Limits& limits);

}  // namespace strobe::report
