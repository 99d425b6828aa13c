// Implements markdown_table(), which formats and escapes a table.
#include "report/markdown.h"

#include <algorithm>

#include "report/escape.h"

namespace strobe::report {

std::string markdown_table(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows,
                           std::size_t text_columns, std::span<const std::size_t> bold_ends) {
  std::string out;
  const auto add_line = [&](const std::vector<std::string>& cells, bool bold_end) {
    out += "|";
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string text = markdown_text(cells[i]);
      out += bold_end && i + 1 == cells.size() ? " **" + text + "** |" : " " + text + " |";
    }
    out += "\n";
  };
  add_line(titles, false);
  out += "|";
  for (std::size_t i = 0; i < titles.size(); ++i) out += i < text_columns ? " --- |" : " ---: |";
  out += "\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    add_line(rows[i], std::find(bold_ends.begin(), bold_ends.end(), i) != bold_ends.end());
  }
  return out;
}

}  // namespace strobe::report
