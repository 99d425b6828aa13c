// Implements the last lines of `bench`, `sweep` and `report`.
#include "cli/report/verdict_lines.h"

#include "app/help.h"

namespace strobe::cli {

report::Standing standing_of(std::span<const report::Cell> cells) {
  return cells.empty() ? report::Standing{} : report::standing_of(cells, report::SeriesNames(cells));
}

std::string verdict_lines(const report::Standing& standing, const std::string& next) {
  const std::string verdict = verdict_text(standing);
  std::string text = verdict.empty() ? "" : wrap_help("verdict: " + verdict + "\n");
  return next.empty() ? text : text + "next: " + next + "\n";
}

}  // namespace strobe::cli
