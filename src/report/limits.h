// Limits for rows of results, for `strobe compare --require`: their file, and the verdicts on cells.
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
  milliseconds,      // of the pass
  speedup,           // time of the reference in the same run over the cell's own
  share_of_product,  // FLOP/s over the matrix-product rate of the same run
  share_of_copy,     // bytes that a pass must move per second, over the copy rate of the same run
  share_of_plain,    // rate over that of the same implementation and sizes without masks of its own or options
  peak_mb,           // MB are 2^20 bytes
  memory,            // peak over that of the reference
  change_low,        // ends of the 95 % interval of the times' ratio, B over A
  change_high,
};

struct Bound {
  Measure measure;
  std::string reference;  // of speedup and memory: an implementation
  bool is_least = true;   // the value is at least `limit`, else at most
  bool is_strict = false;
  double limit = 0;
};

struct Requirement {
  enum class Kind { each, mean, shown };  // of cells' values; mean: geometric; shown: no limit
  Kind kind = Kind::each;
  double share = 1;           // of the values that a limit must hold for
  std::vector<Pass> passes;   // none: those that were timed
  std::vector<Bound> bounds;  // one that holds is enough
  std::string text;           // as the file has it
  std::vector<CaseWord> cells;
  std::string cells_text;
  std::string implementation;  // "": all
};

struct Limits {
  std::string about;
  std::vector<Requirement> requirements;
};

// Throws Error(invalid_argument), "NAME: line N: what is wrong".
Limits parse_limits(const std::string& name, std::string_view text);

// The file's format, for the help.
extern const char* const kLimitsFormat;

struct Judgement {
  std::vector<NamedTable> tables;  // cells, then limits
  std::size_t limits = 0, missed = 0;
};

// Holds B's cells to the limits. `comparison` is of A and B, for limits on a change; null: there are none of these.
// Throws Error(invalid_argument) if no limit is about any of the cells.
Judgement judge(const Limits& limits, std::span<const Cell> cells, const Comparison* comparison, Estimate estimate);

bool needs_comparison(const Limits& limits);

}  // namespace strobe::report
