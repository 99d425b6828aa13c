// Rows of the ladder (written by strobe-lab) as a table, a chart and Markdown. `strobe ladder` and strobe-lab call.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/json.h"

namespace strobe::report {

// Seconds throughout. What a row does not have is absent, never 0.
struct LadderRow {
  std::string rung, idea, status, reason;
  std::string size;         // "t28 (4, 16384, 64)"
  std::string scaled_from;  // likewise, where the time was not measured on that case itself
  double flops = 0;         // nominal
  std::optional<double> error, seconds, kernel, to_device, to_host, setup;
};

// Rows of kind "rung". Throws Error(invalid_argument) for one that lacks what every row has.
std::vector<LadderRow> read_ladder(std::span<const Json> rows);

std::string ladder_table(std::span<const LadderRow> rows);     // for a terminal
std::string ladder_markdown(std::span<const LadderRow> rows);  // the same for a document

}  // namespace strobe::report
