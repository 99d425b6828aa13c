// Tables: cells of text under headings, printed for a terminal, as Markdown and as CSV. Every command that prints a
// table uses this.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace strobe {

// The title of a column. Columns are right-aligned, for numbers; left() makes a left-aligned one, for text.
struct Heading {
  Heading(const char* words) : title(words) {}
  Heading(std::string words, bool left = false) : title(std::move(words)), is_left(left) {}
  bool operator==(const Heading& other) const { return title == other.title; }

  std::string title;
  bool is_left = false;
};
inline Heading left(std::string title) { return {std::move(title), true}; }

struct Table {
  std::string title{};
  std::vector<Heading> columns{};
  std::vector<std::vector<std::string>> cells{};  // one list per row; missing cells at the end of a row are empty

  // All three print the headings first and escape the cells; csv() leaves right-aligned cells as they are.
  std::string text() const;                                                 // for a terminal: aligned by characters
  std::string markdown(std::span<const std::size_t> bold_ends = {}) const;  // the last cell of these rows is bold
  std::string csv() const;
};

// Print several tables, each below its title.
std::string tables_text(std::span<const Table> tables);
std::string tables_markdown(std::span<const Table> tables);

}  // namespace strobe
