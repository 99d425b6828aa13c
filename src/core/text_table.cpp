// Formats text tables. Widths count UTF-8 characters instead of bytes: continuation bytes have no width.
#include "core/text_table.h"

#include <algorithm>

#include "core/fail.h"

namespace strobe {
namespace {

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

void TextTable::add_column(std::string title, Align align) { columns_.push_back({std::move(title), align}); }

void TextTable::add_row(std::vector<std::string> cells) {
  if (cells.size() > columns_.size()) {
    fail(ErrorCode::invalid_argument, "table: a row of {} cells for {} columns", cells.size(), columns_.size());
  }
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = width_of(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, width_of(row[c]));
    widths.push_back(width);
  }
  std::string out;
  const auto append_line = [&](const auto& cell_of) {
    std::string line;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const std::string& cell = cell_of(c);
      const std::string padding(widths[c] - width_of(cell), ' ');
      if (c) line += "  ";
      line += columns_[c].align == Align::right ? padding + cell : cell + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  };
  append_line([&](std::size_t c) -> const std::string& { return columns_[c].title; });
  for (const auto& row : rows_) append_line([&](std::size_t c) -> const std::string& { return row[c]; });
  return out;
}

}  // namespace strobe
