// Reads JSON-lines files whose last line may be incomplete because a process was killed. The sweep's result file and
// steps.jsonl are read with it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace strobe {

// Calls `take` for each line that ends in a newline, with its number from 1. Returns the total size of these lines in
// bytes. An incomplete last line is accepted if it follows another line, or if it begins with `row_begin` or is a
// prefix of it. Otherwise strobe did not write the file and must not change it: throws Error(invalid_argument),
// prefixed with `shown`.
std::size_t for_each_whole_line(std::string_view text, std::string_view row_begin, const std::string& shown,
                                const std::function<void(std::string_view line, int number)>& take);

}  // namespace strobe
