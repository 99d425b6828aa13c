// Separates complete lines from an incomplete last line.
#include "core/json_lines.h"

#include "core/fail.h"
#include "core/printable.h"

namespace strobe {

std::size_t for_each_whole_line(std::string_view text, std::string_view row_begin, const std::string& shown,
                                const std::function<void(std::string_view line, int number)>& take) {
  std::size_t whole = 0;
  int number = 0;
  for (std::size_t end; (end = text.find('\n', whole)) != std::string_view::npos; whole = end + 1) {
    take(text.substr(whole, end - whole), ++number);
  }
  const std::string_view tail = text.substr(whole);
  if (number == 0 && !tail.starts_with(row_begin) && !row_begin.starts_with(tail)) {
    fail(ErrorCode::invalid_argument, "{}: is not a file of rows: it begins with {}, but a row begins with {}", shown,
         printable_value(tail.substr(0, row_begin.size())), row_begin);
  }
  return whole;
}

}  // namespace strobe
