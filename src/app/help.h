// Wraps text. That of --help has 80 columns on any terminal, because the pages in docs/commands/ are copies of it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace strobe {

inline constexpr std::size_t kHelpColumns = 80;

// Appends the words of `text` to `line` and wraps them; new lines begin with `indent` spaces. All lines but the last
// end with `end`.
std::string filled(std::string line, std::string_view text, std::size_t indent, std::string_view end = {},
                   std::size_t columns = kHelpColumns);

// Returns "  HEAD  TEXT", where every line of TEXT begins in `column`. A HEAD that reaches `column` gets its own line.
std::string help_entry(std::string_view head, std::string_view text, std::size_t column);

// Rewraps paragraphs and entries that have a line over 80 columns. A paragraph consists of adjacent lines without
// indentation. An entry is "  name  text" with the following lines that begin in the column of "text". A command to
// copy is an indented line that begins with "strobe"; it continues after a backslash. Any other line continues with
// four more spaces of indentation.
std::string wrap_help(std::string_view text);

// Prints wrap_help(text).
void print_help(std::string_view text);

}  // namespace strobe
