// Files of JSON lines that a killed process may have left with a torn last line.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace strobe {

// Calls `take` for each line that ends in a newline, with its number from 1. Returns the bytes of these lines; what
// follows is a torn line. A tail is one only if it follows a line, or begins as rows do: with `row_begin`, or with part
// of it. Throws Error(invalid_argument), `shown` first, for any other tail: such a file is not ours and must stay as it
// is.
std::size_t for_each_whole_line(std::string_view text, std::string_view row_begin, const std::string& shown,
                                const std::function<void(std::string_view line, int number)>& take);

}  // namespace strobe
