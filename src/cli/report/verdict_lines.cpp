// Implements the last lines of `bench`, `sweep` and `report`.
#include "cli/report/verdict_lines.h"

#include "app/help.h"
#include "app/terminal.h"

namespace strobe::cli {

report::Standing standing_of(std::span<const report::Cell> cells) {
  return cells.empty() ? report::Standing{} : report::standing_of(cells, report::SeriesNames(cells));
}

std::string verdict_lines(const report::Standing& standing, const std::string& next) {
  const std::string verdict = verdict_text(standing);
  constexpr std::string_view kTitle = "verdict:";
  std::string text = verdict.empty() ? "" : wrap_help(std::string(kTitle) + " " + verdict + "\n");
  const Style style = standing.is_clear() ? Style::good : Style::caution;
  if (!text.empty()) text.replace(0, kTitle.size(), styled(style, kTitle));
  return next.empty() || is_quiet() ? text : text + "next: " + next + "\n";
}

}  // namespace strobe::cli
