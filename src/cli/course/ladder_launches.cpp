// Rows of scaled rungs have the launches of the smaller case that ran; its kernel time is not in the row.
#include "cli/course/ladder_launches.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/short_number.h"
#include "report/ladder.h"

namespace strobe::cli {
namespace {

double number_or_zero(const Json* value) { return value && !value->is_null() ? value->as_number() : 0; }

std::string microseconds_per_launch(const Json& row, double launches) {
  const Json* split = row.find("split");
  const double kernel = split ? number_or_zero(split->find("kernel")) : 0;
  return kernel > 0 && !row.find("scaled_from") ? short_number(1e6 * kernel / launches) : "-";
}

std::vector<std::string> launch_cells(const Json& row, double launches) {
  const Json* scaled = row.find("scaled_from");
  return {row.at("rung").as_string(), fmt::format("{:.0f}", launches), microseconds_per_launch(row, launches),
          fmt::format("{:.0f}", number_or_zero(row.find("shared_bytes"))),
          scaled ? "case that ran: " + report::case_text(*scaled) : ""};
}

}  // namespace

std::vector<report::NamedTable> launch_tables(std::span<const Json> rows) {
  std::vector<report::NamedTable> tables;
  for (const Json& row : rows) {
    const double launches = number_or_zero(row.find("launches"));
    if (row.at("kind").as_string() != "rung" || launches == 0) continue;
    const std::string title = report::case_text(row.at("case")) + ": kernel launches";
    auto table =
        std::find_if(tables.begin(), tables.end(), [&](const report::NamedTable& one) { return one.title == title; });
    if (table == tables.end()) {
      table = tables.insert(
          tables.end(), {title, {"rung", "launches", "kernel us per launch", "shared bytes per block", "remark"}, {}});
    }
    table->cells.push_back(launch_cells(row, launches));
  }
  return tables;
}

}  // namespace strobe::cli
