// Splits a stream of JSON into the texts of its rows: consecutive values, and the items of top-level lists. Keeps one
// row in memory.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace strobe::report {

class RowSplitter {
 public:
  struct Row {
    std::string_view text;  // one value, or invalid text that the JSON reader rejects
    std::size_t line;       // line of the first character, from 1
    std::size_t list_item;  // from 1; 0 outside a list
  };
  using Take = std::function<void(const Row&)>;

  explicit RowSplitter(Take take) : take_(std::move(take)) {}

  // Calls `take` for each complete row. Throws Error(invalid_argument) for text that cannot follow, and for a row of
  // more than Json::kMaxBytes.
  void add(std::string_view block);
  void finish();  // call at the end of the text

  std::size_t line() const { return line_; }
  std::size_t list_item() const { return list_item_; }

 private:
  enum class Place { between, in_container, in_string, in_word };
  enum class InList { no, before_item, after_comma, after_item };

  void append(std::string_view text);
  void step(char c);
  void begin(char c);
  bool take_list_mark(char c);
  void end();

  Take take_;
  std::string row_;
  Place place_ = Place::between;
  InList in_list_ = InList::no;
  std::size_t line_ = 1, first_line_ = 1, list_item_ = 0;
  std::size_t depth_ = 0;  // open containers in the row
  bool quoted_ = false, escaped_ = false;
};

}  // namespace strobe::report
