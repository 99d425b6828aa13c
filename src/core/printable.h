// Words of files and arguments as part of a line on a terminal. Called wherever an error quotes what others wrote.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace strobe {

inline constexpr std::size_t kLongestQuote = 80;  // bytes; enough to find the place

// Returns the text with \xNN for each byte of control characters, bidirectional controls and invalid UTF-8. Cuts it
// after about `most` bytes and appends "...".
std::string printable(std::string_view text, std::size_t most = kLongestQuote);

// The same, and "" with its quotes where there is nothing to see.
std::string printable_value(std::string_view text);

}  // namespace strobe
