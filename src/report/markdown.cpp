// Escaping is for what a result file may hold: names and reasons that were written by others.
#include "report/markdown.h"

namespace strobe::report {

std::string markdown_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|')
      out += "\\|";
    else if (c == '<')
      out += "&lt;";
    else if (c == '\n' || c == '\r')
      out += ' ';
    else
      out += c;
  }
  return out;
}

std::string markdown_table(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows,
                           std::size_t text_columns) {
  std::string out;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    out += "|";
    for (const std::string& cell : cells) out += " " + markdown_text(cell) + " |";
    out += "\n";
  };
  add_line(titles);
  out += "|";
  for (std::size_t i = 0; i < titles.size(); ++i) out += i < text_columns ? " --- |" : " ---: |";
  out += "\n";
  for (const std::vector<std::string>& row : rows) add_line(row);
  return out;
}

}  // namespace strobe::report
