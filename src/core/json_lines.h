// JSON-lines files whose last line may be incomplete because a process was killed.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace strobe {

// Calls `take` for each line that ends in a newline, with its number from 1. Returns the size of these lines in bytes.
// The rest is a torn line if it follows a line, or begins with `row_begin` or a prefix of it. Any other rest means that
// strobe did not write the file and must not change it: throws Error(invalid_argument), prefixed with `shown`.
std::size_t for_each_whole_line(std::string_view text, std::string_view row_begin, const std::string& shown,
                                const std::function<void(std::string_view line, int number)>& take);

}  // namespace strobe
