// Formats tables. Widths count UTF-8 characters instead of bytes: continuation bytes have no width.
#include "results/table.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "core/fail.h"
#include "core/printable.h"
#include "core/table_width.h"
#include "results/escape.h"

namespace strobe {
namespace {

constexpr std::size_t kGap = 2, kLeastWrapped = 24;  // characters; kLeastWrapped: minimum width of a wrapped column

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string shown(const std::string& text) { return printable(text, std::string_view::npos); }

// Returns the headings and the rows, with one cell per column. Throws if a row has too many cells.
std::vector<std::vector<std::string>> lines_of(const Table& table) {
  std::vector<std::vector<std::string>> lines(1);
  for (const Heading& heading : table.columns) lines[0].push_back(heading.title);
  for (std::vector<std::string> row : table.cells) {
    if (row.size() > table.columns.size()) {
      fail(ErrorCode::invalid_argument, "table: a row of {} cells for {} columns", row.size(), table.columns.size());
    }
    row.resize(table.columns.size());
    lines.push_back(std::move(row));
  }
  return lines;
}

// Wraps text at spaces to lines of `room` characters; all but the first begin with `indent` spaces.
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
    if (blocks.back().size() > 1 && used + kGap + least > table_width_limit) {
      blocks.push_back({0});
      used = widths[0];
    }
    used += (blocks.back().empty() ? 0 : kGap) + least;
    blocks.back().push_back(c);
  }
  return blocks;
}

}  // namespace

std::string Table::text() const {
  std::vector<std::vector<std::string>> lines = lines_of(*this);
  std::vector<std::size_t> widths(columns.size());
  for (std::vector<std::string>& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], width_of(line[c] = shown(line[c])));
  }
  std::string out;
  for (const std::vector<std::size_t>& block : blocks_of(widths, !columns.empty() && columns.back().is_left)) {
    std::size_t before = 0;  // width of all columns except the last, with the gaps
    for (std::size_t i = 0; i + 1 < block.size(); ++i) before += widths[block[i]] + kGap;
    const bool wraps = block.size() > 1 && columns[block.back()].is_left && table_width_limit != SIZE_MAX;
    const std::size_t room =
        wraps ? std::max(table_width_limit - std::min(before, table_width_limit), kLeastWrapped) : SIZE_MAX;
    if (!out.empty()) out += '\n';
    for (const std::vector<std::string>& line : lines) {
      std::string text;
      for (const std::size_t c : block) {
        const std::string padding(widths[c] - width_of(line[c]), ' ');
        if (c != block.front()) text += std::string(kGap, ' ');
        if (c == block.back() && width_of(line[c]) > room) {
          text += wrapped(line[c], room, before);
        } else {
          text += columns[c].is_left ? line[c] + padding : padding + line[c];
        }
      }
      out += text.erase(text.find_last_not_of(' ') + 1) + '\n';
    }
  }
  return out;
}

std::string Table::markdown(std::span<const std::size_t> bold_ends) const {
  const std::vector<std::vector<std::string>> lines = lines_of(*this);
  std::string out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool is_bold = i > 0 && std::ranges::find(bold_ends, i - 1) != bold_ends.end();
    out += "|";
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const char* const mark = is_bold && c + 1 == columns.size() ? "**" : "";
      out += fmt::format(" {}{}{} |", mark, markdown_text(lines[i][c]), mark);
    }
    out += "\n";
    if (i > 0) continue;
    out += "|";
    for (const Heading& heading : columns) out += heading.is_left ? " --- |" : " ---: |";
    out += "\n";
  }
  return out;
}

std::string Table::csv() const {
  std::string out;
  for (const std::vector<std::string>& line : lines_of(*this)) {
    for (std::size_t c = 0; c < line.size(); ++c) {
      out += (c ? "," : "") + (columns[c].is_left ? csv_text(line[c]) : line[c]);
    }
    out += "\n";
  }
  return out;
}

std::string tables_text(std::span<const Table> tables) {
  std::string out;
  for (const Table& table : tables) out += (out.empty() ? "" : "\n") + shown(table.title) + "\n" + table.text();
  return out;
}

std::string tables_markdown(std::span<const Table> tables) {
  std::string out;
  for (const Table& table : tables) {
    out += (out.empty() ? "" : "\n") + ("### " + markdown_text(table.title)) + "\n\n" + table.markdown();
  }
  return out;
}

}  // namespace strobe
