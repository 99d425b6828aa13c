// Tables with a title, as text or Markdown. The reports of the ladder, plans, collectives and limits create them.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace strobe::report {

struct NamedTable {
  std::string title;
  std::vector<std::string> columns;  // text in the first and the last column, numbers in the others
  std::vector<std::vector<std::string>> cells;
};

std::string tables_text(std::span<const NamedTable> tables);      // for a terminal
std::string tables_markdown(std::span<const NamedTable> tables);  // for a document

}  // namespace strobe::report
