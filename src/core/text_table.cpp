// Formats text tables. Widths count UTF-8 characters instead of bytes: continuation bytes have no width.
#include "core/text_table.h"

#include <algorithm>
#include <cstdint>

#include "core/fail.h"
#include "core/table_width.h"

namespace strobe {
namespace {

constexpr std::size_t kGap = 2, kLeastWrapped = 24;  // columns; a wrapped column is not narrower
std::size_t width_limit = SIZE_MAX;

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// Wraps text at spaces to lines of `room` columns; all but the first begin with `indent` spaces.
std::string wrapped(const std::string& text, std::size_t room, std::size_t indent) {
  std::string out;
  std::size_t column = 0;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (column > 0 && column + 1 + width_of(word) > room) {
      out += '\n' + std::string(indent, ' ');
      column = 0;
    }
    out += (column > 0 ? " " : "") + word;
    column += (column > 0 ? 1 : 0) + width_of(word);
    begin = end + 1;
  }
  return out;
}

// Divides the columns into blocks that fit the limit. Each block after the first repeats column 0. `wraps`: the last
// column may be narrower than its text.
std::vector<std::vector<std::size_t>> blocks_of(const std::vector<std::size_t>& widths, bool wraps) {
  std::vector<std::vector<std::size_t>> blocks{{}};
  std::size_t used = 0;
  for (std::size_t c = 0; c < widths.size(); ++c) {
    const bool is_wrapped = wraps && c + 1 == widths.size();
    const std::size_t least = is_wrapped ? std::min(widths[c], kLeastWrapped) : widths[c];
    if (blocks.back().size() > 1 && used + kGap + least > width_limit) {
      blocks.push_back({0});
      used = widths[0];
    }
    used += (blocks.back().empty() ? 0 : kGap) + least;
    blocks.back().push_back(c);
  }
  return blocks;
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

void limit_table_width(std::size_t columns) { width_limit = columns; }

std::string TextTable::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = width_of(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, width_of(row[c]));
    widths.push_back(width);
  }
  const auto is_text = [&](std::size_t c) { return columns_[c].align == Align::left; };
  std::string out;
  for (const std::vector<std::size_t>& block : blocks_of(widths, !columns_.empty() && is_text(columns_.size() - 1))) {
    std::size_t before = 0;  // width of all columns but the last, with the gaps
    for (std::size_t i = 0; i + 1 < block.size(); ++i) before += widths[block[i]] + kGap;
    const bool wraps = block.size() > 1 && is_text(block.back()) && width_limit != SIZE_MAX;
    const std::size_t room = wraps ? std::max(width_limit - std::min(before, width_limit), kLeastWrapped) : SIZE_MAX;
    const auto append_line = [&](const auto& cell_of) {
      std::string line;
      for (const std::size_t c : block) {
        const std::string& cell = cell_of(c);
        const std::string padding(widths[c] - width_of(cell), ' ');
        if (c != block.front()) line += std::string(kGap, ' ');
        if (c == block.back() && width_of(cell) > room) {
          line += wrapped(cell, room, before);
        } else {
          line += is_text(c) ? cell + padding : padding + cell;
        }
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + '\n';
    };
    if (!out.empty()) out += '\n';
    append_line([&](std::size_t c) -> const std::string& { return columns_[c].title; });
    for (const auto& row : rows_) append_line([&](std::size_t c) -> const std::string& { return row[c]; });
  }
  return out;
}

}  // namespace strobe
