// Implements keyed_text().
#include "cli/lm/keyed_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "app/terminal.h"

namespace strobe::cli {

std::string keyed_text(const Table& table, std::size_t identity) {
  const auto differs = [&](std::size_t column) {
    return std::ranges::any_of(table.cells, [&](const auto& row) { return row[column] != table.cells[0][column]; });
  };
  std::vector<std::size_t> keys;
  std::string equal;
  for (std::size_t column = 0; column < identity; ++column) {
    if (differs(column)) {
      keys.push_back(column);
    } else {
      equal += fmt::format("{}{} {}", equal.empty() ? "" : ", ", table.columns[column].title, table.cells[0][column]);
    }
  }
  if (keys.empty()) keys.push_back(0);
  const auto joined = [&](auto&& text_of) {
    std::string text;
    for (const std::size_t column : keys) text += (text.empty() ? "" : ", ") + text_of(column);
    return text;
  };
  Table shown{.columns = {left(joined([&](std::size_t column) { return table.columns[column].title; }))}};
  const auto figures = static_cast<std::ptrdiff_t>(identity);
  shown.columns.insert(shown.columns.end(), table.columns.begin() + figures, table.columns.end());
  for (const std::vector<std::string>& row : table.cells) {
    std::vector<std::string>& cells = shown.cells.emplace_back();
    cells.push_back(joined([&](std::size_t column) { return row[column]; }));
    if (row.size() > identity) cells.insert(cells.end(), row.begin() + figures, row.end());
  }
  return (equal.empty() ? "" : fitting_line(equal)) + shown.text();
}

}  // namespace strobe::cli
