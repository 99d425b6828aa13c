// Reads JSON-lines files whose last line may be incomplete because a process was killed. The sweep's result file and
// steps.jsonl are read with it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace strobe {

// Calls `take` for each line that ends in a newline, with its number from 1. Returns the total size of these lines in
// bytes. Ignores an incomplete last line. `row_begin` is the text with which every row begins. If the file has no
// complete line and its text contradicts `row_begin`, another program wrote the file and strobe must not change it.
// Then throws Error(invalid_argument), prefixed with `shown`.
std::size_t for_each_whole_line(std::string_view text, std::string_view row_begin, const std::string& shown,
                                const std::function<void(std::string_view line, int number)>& take);

}  // namespace strobe
