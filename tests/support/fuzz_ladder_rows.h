// Any text as rows of the ladder: refused in one line, or its tables and figures are bounded and escaped. Called by
// libFuzzer (tests/fuzz) and by the test that replays its corpus.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"
#include "report/each_row.h"
#include "report/ladder.h"
#include "report/named_table.h"
#include "report/svg.h"
#include "support/fuzz_rules.h"

namespace strobe::test {

// Returns true for rows of the ladder.
inline bool fuzz_ladder_rows(const std::uint8_t* data, std::size_t bytes) {
  std::vector<Json> rows;
  const auto take = [&](const Json& row) { rows.push_back(row); };
  if (!is_accepted([&] { report::each_row(text_of(data, bytes), "file", take); })) return false;
  std::vector<report::NamedTable> tables;
  std::vector<report::Figure> figures;
  const bool accepted = is_accepted([&] {
    tables = report::ladder_tables(rows);
    figures = report::ladder_figures(rows);
  });
  if (!accepted) return false;
  require(is_printable(report::tables_text(tables), "\n"), "tables are printable text");
  require(is_printable(report::tables_markdown(tables), "\n"), "Markdown is printable text");
  for (const report::Figure& figure : figures) {
    std::string svg;
    if (!is_accepted([&] { svg = report::figure_svg(figure); })) return false;  // a value that no axis has
    require(svg.size() < 1 << 22, "the size of a figure is bounded");
    require(is_printable(svg, "\n"), "SVG is printable text");
  }
  return !tables.empty();
}

}  // namespace strobe::test
