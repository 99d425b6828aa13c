// Formats a comparison as a table for a terminal and as Markdown for a pull request.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <utility>

#include "core/counted.h"
#include "core/printable.h"
#include "report/compare.h"
#include "results/escape.h"
#include "results/table.h"

namespace strobe::report {
namespace {

std::string milliseconds(double seconds) {
  const double ms = seconds * 1e3;
  return fmt::format("{:.{}f}", ms, ms < 1 ? 4 : ms < 100 ? 2 : 1);
}

std::string summary_line(const Comparison& comparison) {
  return fmt::format("{} compared: {} slower, {} faster, {} same, {} ambiguous; threshold {:.4g} %",
                     comparison.count(Verdict::slower) + comparison.count(Verdict::faster) +
                         comparison.count(Verdict::same) + comparison.count(Verdict::ambiguous),
                     comparison.count(Verdict::slower), comparison.count(Verdict::faster),
                     comparison.count(Verdict::same), comparison.count(Verdict::ambiguous), 100 * comparison.threshold);
}

constexpr std::size_t kLaunches = 6;  // index of the column "launches" of table_of()

// Returns ", 5 launches each", or the range over the cells if it varies; "" if nothing was compared.
std::string launches_text(const Comparison& comparison) {
  std::size_t fewest = std::numeric_limits<std::size_t>::max(), most = 0;
  for (const CellComparison& cell : comparison.cells) {
    for (const PassComparison& one : cell.passes) {
      fewest = std::min(fewest, one.ratio.launches);
      most = std::max(most, one.ratio.launches);
    }
  }
  if (most == 0) return "";
  return fmt::format(", {}{} launch{} each", fewest < most ? fmt::format("{} to ", fewest) : "", most,
                     most == 1 ? "" : "es");
}

Table table_of(const Comparison& comparison) {
  Table table{.columns = {left("cell"), left("pass"), "A ms", "B ms", "B / A", "95 % interval", "launches",
                          "memory B / A", left("verdict")}};
  for (const CellComparison& cell : comparison.cells) {
    const std::string name = cell.implementation + ": " + describe(cell.config);
    const std::string memory = cell.memory_ratio ? fmt::format("{:.3f}", *cell.memory_ratio) : "-";
    for (const PassComparison& one : cell.passes) {
      table.cells.push_back({name, name_of(one.pass), milliseconds(one.seconds_a), milliseconds(one.seconds_b),
                             fmt::format("{:.3f}", one.ratio.value),
                             fmt::format("{:.3f} .. {:.3f}", one.ratio.low, one.ratio.high),
                             fmt::format("{}", one.ratio.launches), memory, name_of(one.verdict)});
    }
    if (cell.passes.empty()) {
      table.cells.push_back({name, "-", cell.status_a, cell.status_b, "-", "-", "-", "-", "no times"});
    }
  }
  return table;
}

// Returns the table as text. If it is wider than the terminal, the first column becomes a line above its rows.
std::string fitting_table(Table table) {
  const std::string text = table.text();
  const auto is_split = [](const std::string& some) { return some.find("\n\n") != some.npos; };
  if (!is_split(text)) return text;
  std::vector<std::string> names;
  for (std::vector<std::string>& row : table.cells) {
    names.push_back(row.front());
    row.erase(row.begin());
  }
  table.columns.erase(table.columns.begin());
  std::istringstream lines(table.text());
  std::string out, line;
  std::getline(lines, line);
  out = "  " + line + "\n";
  for (std::size_t i = 0; std::getline(lines, line); ++i) {
    if (i >= names.size()) return text;  // still too wide
    if (i == 0 || names[i] != names[i - 1]) out += names[i] + "\n";
    out += "  " + line + "\n";
  }
  return out;
}

}  // namespace

std::vector<std::string> comparison_notes(const Comparison& comparison) {
  std::vector<std::string> lines;
  for (const CellComparison& cell : comparison.cells) {
    if (cell.status_a == cell.status_b) continue;
    lines.push_back(fmt::format("{}: {}: status was {}, is {}", cell.implementation, describe(cell.config),
                                cell.status_a, cell.status_b));
  }
  const auto unmatched = [&](const char* side, const Unmatched& only, const char* other) {
    if (only.cells.empty()) return;
    lines.push_back(fmt::format("{} in {} only, such as {}; nearest in {}: {}", counted(only.cells.size(), "cell"),
                                side, only.cells.front(), other, only.difference));
  };
  unmatched("A", comparison.only_a, "B");
  unmatched("B", comparison.only_b, "A");
  lines.insert(lines.end(), comparison.notes.begin(), comparison.notes.end());
  return lines;
}

std::string comparison_summary(const Comparison& comparison) {
  return summary_line(comparison) + launches_text(comparison);
}

std::string comparison_table(const Comparison& comparison) {
  Table table = table_of(comparison);
  table.columns.erase(table.columns.begin() +
                      kLaunches);  // keeps the table narrow; comparison_summary() has the launches
  for (std::vector<std::string>& row : table.cells) row.erase(row.begin() + kLaunches);
  return fmt::format("A: {}\nB: {}\n{}", printable(comparison.name_a, std::string_view::npos),
                     printable(comparison.name_b, std::string_view::npos), fitting_table(std::move(table)));
}

std::string comparison_markdown(const Comparison& comparison) {
  const char* title = comparison.count(Verdict::slower)      ? "Slower"
                      : comparison.count(Verdict::ambiguous) ? "No slowdown proven"
                                                             : "No slowdown";
  std::string text =
      fmt::format("### {}\n\n{}. A is {}, B is {}; B / A below 1: B is faster.\n\n", title, summary_line(comparison),
                  markdown_text(comparison.name_a), markdown_text(comparison.name_b));
  const Table table = table_of(comparison);
  std::vector<std::size_t> proven;
  for (std::size_t i = 0; i < table.cells.size(); ++i) {
    const std::string& verdict = table.cells[i].back();
    if (verdict == name_of(Verdict::slower) || verdict == name_of(Verdict::faster)) proven.push_back(i);
  }
  text += table.markdown(proven);
  const std::vector<std::string> notes = comparison_notes(comparison);
  if (!notes.empty()) text += "\n";
  for (const std::string& note : notes) text += "- " + markdown_line(note) + "\n";
  return text;
}

}  // namespace strobe::report
