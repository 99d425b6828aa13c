// Tables for people: columns padded to their widest cell, numbers to the right. Used by the command line.
#pragma once

#include <string>
#include <vector>

namespace strobe {

class TextTable {
 public:
  enum class Align { left, right };

  void add_column(std::string title, Align align = Align::right);
  void add_row(std::vector<std::string> cells);  // missing cells are empty; one too many is an error
  bool empty() const { return rows_.empty(); }

  // One line each, ending in a newline; the first line is the titles.
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
