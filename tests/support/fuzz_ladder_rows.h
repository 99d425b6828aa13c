// Reads any text as result rows of the course ladder. The reader must reject it with a one-line error. Accepted rows
// must give at least one table and SVG files of bounded size, both with escaped text. Called by libFuzzer (tests/fuzz)
// and by the test that replays its corpus.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"
#include "report/ladder.h"
#include "report/svg.h"
#include "results/table.h"
#include "support/fuzz_rules.h"

namespace strobe::test {

// Returns true if the reader accepts the text.
inline bool fuzz_ladder_rows(const std::uint8_t* data, std::size_t bytes) {
  std::vector<Json> rows;
  if (!is_accepted([&] { rows = report::parse_ladder_rows(text_of(data, bytes), "file"); })) return false;
  const std::vector<Table> tables = report::ladder_tables(rows);
  require(is_printable(tables_text(tables), "\n"), "tables are printable text");
  require(is_printable(tables_markdown(tables), "\n"), "Markdown is printable text");
  for (const report::Figure& figure : report::ladder_figures(rows)) {
    const std::string svg = report::figure_svg(figure);
    require(svg.size() < 1 << 22, "the size of a figure is bounded");
    require(is_printable(svg, "\n"), "SVG is printable text");
  }
  require(!tables.empty(), "rows of the ladder have a table");
  return true;
}

}  // namespace strobe::test
