// Formats tables. Widths count UTF-8 characters instead of bytes: continuation bytes have no width.
#include "results/table.h"

#include <algorithm>
#include <string_view>

#include "core/fail.h"
#include "core/printable.h"
#include "results/escape.h"

namespace strobe {
namespace {

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

}  // namespace

std::string Table::text() const {
  std::vector<std::vector<std::string>> lines = lines_of(*this);
  std::vector<std::size_t> widths(columns.size());
  for (std::vector<std::string>& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], width_of(line[c] = shown(line[c])));
  }
  std::string out;
  for (const std::vector<std::string>& line : lines) {
    std::string text;
    for (std::size_t c = 0; c < line.size(); ++c) {
      const std::string padding(widths[c] - width_of(line[c]), ' ');
      text += (c ? "  " : "") + (columns[c].is_left ? line[c] + padding : padding + line[c]);
    }
    out += text.erase(text.find_last_not_of(' ') + 1) + '\n';
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
