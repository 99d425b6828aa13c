// Implements RowSplitter. Scans only for brackets, strings and line ends; the JSON parser validates the rows later.
#include "results/row_splitter.h"

#include <array>

#include "core/fail.h"
#include "core/json.h"

namespace strobe {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

bool ends_word(char c) { return is_space(c) || std::string_view(",]}[{\"").find(c) != std::string_view::npos; }

// Characters inside a container or string that add() must pass to step().
constexpr std::array<bool, 256> kMarks = [] {
  std::array<bool, 256> marks{};
  for (const char c : {'"', '\\', '{', '}', '[', ']', '\n'}) marks[static_cast<unsigned char>(c)] = true;
  return marks;
}();

std::size_t after_plain(std::string_view block, std::size_t at) {
  while (at < block.size() && !kMarks[static_cast<unsigned char>(block[at])]) ++at;
  return at;
}

}  // namespace

void RowSplitter::add(std::string_view block) {
  for (std::size_t i = 0; i < block.size(); ++i) {
    const std::size_t end =
        (place_ == Place::in_container || place_ == Place::in_string) && !escaped_ ? after_plain(block, i) : i;
    append(block.substr(i, end - i));
    if ((i = end) == block.size()) return;
    step(block[i]);
    line_ += block[i] == '\n';
  }
}

void RowSplitter::append(std::string_view text) {
  row_ += text;
  if (row_.size() > Json::kMaxBytes) {
    fail(ErrorCode::invalid_argument, "a row has more than {} bytes, the limit", Json::kMaxBytes);
  }
}

void RowSplitter::finish() {
  if (place_ != Place::between) end();
  if (in_list_ != InList::no) fail(ErrorCode::invalid_argument, "not JSON: no closing bracket of the list");
}

void RowSplitter::step(char c) {
  if (place_ == Place::in_word && ends_word(c)) end();
  if (place_ == Place::between) return begin(c);
  append({&c, 1});
  if (quoted_) {
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      quoted_ = false;
      if (place_ == Place::in_string) end();
    }
    return;
  }
  if (place_ != Place::in_container) return;
  if (c == '"') quoted_ = true;
  if (c == '{' || c == '[') ++depth_;
  if ((c == '}' || c == ']') && --depth_ == 0) end();
}

void RowSplitter::begin(char c) {
  if (is_space(c) || take_list_mark(c)) return;
  if (in_list_ == InList::after_item) fail(ErrorCode::invalid_argument, "not JSON: no comma after an item of the list");
  if (in_list_ != InList::no) ++list_item_;
  first_line_ = line_;
  row_ = c;
  quoted_ = c == '"';
  depth_ = c == '{' || c == '[' ? 1 : 0;
  place_ = depth_ > 0 ? Place::in_container : quoted_ ? Place::in_string : Place::in_word;
}

// Handles brackets and commas of a top-level array. Returns true if `c` was one of them.
bool RowSplitter::take_list_mark(char c) {
  if (in_list_ == InList::no) {
    if (c != '[') return false;
    in_list_ = InList::before_item;
    return true;
  }
  if (c == ']' && in_list_ != InList::after_comma) {
    in_list_ = InList::no;
    list_item_ = 0;
    return true;
  }
  if (c == ',' && in_list_ == InList::after_item) {
    in_list_ = InList::after_comma;
    return true;
  }
  return false;
}

void RowSplitter::end() {
  place_ = Place::between;
  quoted_ = escaped_ = false;
  if (in_list_ != InList::no) in_list_ = InList::after_item;
  take_({row_, first_line_, list_item_});
  row_.clear();
}

}  // namespace strobe
