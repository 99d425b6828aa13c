// Prints named tables as plain text and as Markdown.
#include "report/named_table.h"

#include <string_view>
#include <utility>

#include "core/printable.h"
#include "core/text_table.h"
#include "report/escape.h"
#include "report/markdown.h"

namespace strobe::report {

std::string tables_text(std::span<const NamedTable> tables) {
  std::string out;
  for (const NamedTable& table : tables) {
    TextTable text;
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      const bool words = i == 0 || i + 1 == table.columns.size();
      text.add_column(printable(table.columns[i], std::string_view::npos),
                      words ? TextTable::Align::left : TextTable::Align::right);
    }
    for (std::vector<std::string> cells : table.cells) {
      for (std::string& cell : cells) cell = printable(cell, std::string_view::npos);
      text.add_row(std::move(cells));
    }
    out += (out.empty() ? "" : "\n") + printable(table.title, std::string_view::npos) + "\n" + text.text();
  }
  return out;
}

std::string tables_markdown(std::span<const NamedTable> tables) {
  std::string out;
  for (const NamedTable& table : tables) {
    out += (out.empty() ? "" : "\n") + ("### " + markdown_text(table.title)) + "\n\n" +
           markdown_table(table.columns, table.cells, 1);
  }
  return out;
}

}  // namespace strobe::report
