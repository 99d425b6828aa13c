// Splits a JSON stream into rows. Each top-level value is a row; for a top-level array, each element is a row. Calls a
// function with the text of each row and keeps only one in memory.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace strobe {

class RowSplitter {
 public:
  struct Row {
    std::string_view text;  // one value, or invalid text that the JSON reader rejects
    std::size_t line;       // line of the first character, from 1
    std::size_t list_item;  // index in the top-level array, from 1; 0 outside an array
  };
  using Take = std::function<void(const Row&)>;

  explicit RowSplitter(Take take) : take_(std::move(take)) {}

  // Calls `take` for each complete row. Throws Error(invalid_argument) if a comma is missing between the elements of a
  // top-level array, or if a row is longer than Json::kMaxBytes.
  void add(std::string_view block);
  void finish();  // call at the end of the text; throws if a top-level array is not closed

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

}  // namespace strobe
