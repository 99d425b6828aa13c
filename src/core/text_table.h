// Formats text tables for the command line. Each column is as wide as its title or widest cell, and aligned to the
// right by default.
#pragma once

#include <string>
#include <vector>

namespace strobe {

class TextTable {
 public:
  enum class Align { left, right };

  void add_column(std::string title, Align align = Align::right);

  // Missing cells are empty. Throws Error(invalid_argument) if there are more cells than columns.
  void add_row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }

  // Returns one line for the titles and one per row, each with a newline and without trailing spaces.
  std::string text() const;

 private:
  struct Column {
    std::string title;
    Align align;
  };
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace strobe
