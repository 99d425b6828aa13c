// Escapes text from files and arguments for one line on a terminal. Every error that quotes user data calls this.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace strobe {

inline constexpr std::size_t kMaxQuoteBytes = 80;  // enough to locate the text

// Returns the text with \xNN for each byte of control characters, bidirectional controls and invalid UTF-8. Cuts it
// after about `most` bytes and appends "...".
std::string printable(std::string_view text, std::size_t most = kMaxQuoteBytes);

// Returns printable(text), or two quotes if the text is empty.
std::string printable_value(std::string_view text);

}  // namespace strobe
