// Formats text tables for the command line: columns are as wide as their widest cell, numbers are right-aligned.
#pragma once

#include <string>
#include <vector>

namespace strobe {

class TextTable {
 public:
  enum class Align { left, right };

  void add_column(std::string title, Align align = Align::right);
  void add_row(std::vector<std::string> cells);  // missing cells are empty; too many throw Error(invalid_argument)
  bool empty() const { return rows_.empty(); }

  // Returns one line per row, each with a newline; the first line holds the titles.
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
