// Reads a file of the ladder's rows, which is not trusted.
#include "core/fail.h"
#include "core/printable.h"
#include "report/each_row.h"
#include "report/ladder.h"

namespace strobe::report {
namespace {

void check_row(const Json& row) {
  const std::span<const Json> alone(&row, 1);
  ladder_figures(alone);  // where a row lacks something, these two say so
  if (ladder_tables(alone).empty())
    fail(ErrorCode::invalid_argument, "kind is {}; valid: rung, ablation, tiles, profile",
         printable_value(row.at("kind").as_string()));
}

}  // namespace

std::vector<Json> read_ladder_rows(const std::string& path) {
  std::vector<Json> rows;
  each_row_of_file(path, [&](const Json& row) {
    try {
      check_row(row);
    } catch (const Error& error) {
      fail(ErrorCode::invalid_argument, "not a row of strobe ladder: {}", error.what());
    }
    rows.push_back(row);
  });
  return rows;
}

}  // namespace strobe::report
