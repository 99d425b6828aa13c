// Reads any text as a result file. The reader must reject it with a one-line error, or return finite numbers, and
// tables and figures of bounded size with escaped text. Called by libFuzzer (tests/fuzz) and by the test that replays
// its corpus.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/cells.h"
#include "report/compare.h"
#include "report/figure.h"
#include "report/result.h"
#include "report/svg.h"
#include "report/tables.h"
#include "support/fuzz_rules.h"

namespace strobe::test {

// Returns the number of unescaped bars in a line of a Markdown table: its cells plus one.
inline std::size_t bars_of(std::string_view line) {
  std::size_t bars = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\')
      ++i;
    else if (line[i] == '|')
      ++bars;
  }
  return bars;
}

// Requires that all rows of a Markdown table have equally many cells, and that the last table has `columns` columns. No
// line may contain an HTML tag.
inline void require_markdown(std::string_view markdown, std::size_t columns) {
  require(is_printable(markdown, "\n"), "Markdown is printable text");
  std::size_t bars = 0, last = 0;  // bars per line of the current table, and of the last one
  while (!markdown.empty()) {
    const std::string_view line = markdown.substr(0, markdown.find('\n'));
    markdown.remove_prefix(std::min(markdown.size(), line.size() + 1));
    require(line.find('<') == std::string_view::npos, "a line of Markdown has no tag");
    if (!line.starts_with('|')) {
      bars = 0;
      continue;
    }
    if (bars == 0) bars = last = bars_of(line);
    require(bars_of(line) == bars, "a Markdown row has one cell per column");
  }
  require(last == columns + 1, "the last table lists all cells");
}

// Requires `columns` fields in every record of a CSV file. Quoted fields may contain commas and line ends. No field may
// begin with a character that starts a spreadsheet formula.
inline void require_csv(std::string_view csv, std::size_t columns) {
  std::size_t fields = 1;
  bool quoted = false, begins = true;
  for (const char c : csv) {
    if (c == '"') {
      quoted = !quoted;
      continue;
    }
    require(!begins || std::string_view("=+@\t").find(c) == std::string_view::npos,
            "a CSV field does not begin as a formula");
    begins = !quoted && (c == ',' || c == '\n');
    if (quoted) continue;
    if (c == ',') ++fields;
    if (c != '\n') continue;
    require(fields == columns, "a CSV record has one field per column");
    fields = 1;
  }
  require(!quoted && fields == 1, "a CSV file ends with a whole record");
}

// Requires that the figure is printable, without scripts, and that coordinates are finite.
inline void require_svg(std::string_view svg) {
  require(is_printable(svg, "\n"), "SVG is printable text");
  for (const char* number : {"=\"nan", "=\"-nan", "=\"inf", "=\"-inf"}) {
    require(svg.find(number) == std::string_view::npos, "coordinates are finite");
  }
  require(svg.find("<script") == std::string_view::npos, "SVG has no script");
}

inline void require_figures(const std::vector<report::Cell>& cells) {
  constexpr std::size_t kMostBytes = 1 << 22;  // limit for a figure of a few rows
  for (const report::Figure& figure : report::make_figures(cells)) {
    const std::string svg = report::figure_svg(figure);
    require(svg.size() < kMostBytes, "the size of a figure is bounded");
    require_svg(svg);
    require(is_printable(report::figure_json(figure).dump()), "the data of a figure is one line");
    const std::string name = report::file_name(figure);
    require(!name.empty() && name.find('/') == std::string::npos && name.size() < 200,
            "a figure has a plain file name");
  }
}

inline void require_result(const report::Result& result) {
  const report::Config& config = result.config;
  require(config.heads >= 1 && config.batch >= 0 && config.seqlen_q >= 0 && config.emb >= 0, "sizes are in range");
  require(is_printable(report::describe(config)), "a configuration is described in one line");
  for (const auto& timing : {result.forward, result.backward}) {
    if (!timing) continue;
    require(std::isfinite(timing->median) && timing->median > 0, "times are finite and above 0");
    require(std::isfinite(timing->flop_rate) && timing->flop_rate >= 0, "rates are finite and not negative");
  }
}

// Returns true if the reader accepts the text.
inline bool fuzz_result_rows(const std::uint8_t* data, std::size_t bytes) {
  std::vector<report::Result> results;
  if (!is_accepted([&] { results = report::parse_results(text_of(data, bytes), "file"); })) return false;
  require(!results.empty(), "a result file has a row");
  for (const report::Result& result : results) require_result(result);
  const std::vector<report::Cell> cells = report::cells_of(results);
  require(!cells.empty() && cells.size() <= results.size(), "every row is in one cell");
  const Table table = report::cell_table(cells), folded = report::fold_constants(table).table;
  require_markdown(report::report_markdown(table, cells, report::make_figures(cells)), folded.columns.size());
  require_csv(table.csv(), table.columns.size());
  require(is_printable(report::table_html(folded, cells), "\n"), "HTML is printable text");
  require_figures(cells);
  report::Comparison comparison;
  if (is_accepted([&] { comparison = report::compare({"a", results}, {"b", results}, 0.05); })) {
    require(is_printable(report::comparison_table(comparison), "\n"), "a comparison is printable text");
    for (const std::string& note : report::comparison_notes(comparison)) {
      require(is_printable(note), "a note of a comparison is a printable line");
    }
    require(is_printable(report::comparison_markdown(comparison), "\n"), "a comparison is printable text");
  }
  return true;
}

}  // namespace strobe::test
