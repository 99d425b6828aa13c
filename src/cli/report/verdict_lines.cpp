// Implements the last lines of `bench`, `sweep` and `report`.
#include "cli/report/verdict_lines.h"

namespace strobe::cli {

report::Standing standing_of(std::span<const report::Cell> cells) {
  return cells.empty() ? report::Standing{} : report::standing_of(cells, report::SeriesNames(cells));
}

std::string verdict_lines(const report::Standing& standing, const std::string& next, Line kind) {
  const std::string verdict = verdict_text(standing);
  const Style style = standing.is_clear() ? Style::good : Style::caution;
  const std::string text = verdict.empty() ? "" : labelled_line(style, "verdict:", verdict);
  return next.empty() || is_quiet() ? text : text + labelled_line(Style::plain, "next:", next, kind);
}

}  // namespace strobe::cli
