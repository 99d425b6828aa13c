// Tables with a title, as text; ladder and collectives make them.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace strobe::report {

struct NamedTable {
  std::string title;
  std::vector<std::string> columns;  // the first and the last hold text, the others numbers
  std::vector<std::vector<std::string>> cells;
};

std::string tables_text(std::span<const NamedTable> tables);      // for a terminal
std::string tables_markdown(std::span<const NamedTable> tables);  // for a document

}  // namespace strobe::report
