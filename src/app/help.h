// Text of --help, wrapped to 80 columns on every terminal: the pages in docs/commands/ are copies of it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace strobe {

inline constexpr std::size_t kHelpColumns = 80;

// "  HEAD  TEXT", with TEXT from `column` on in every line. A head that reaches `column` gets a line of its own.
std::string help_entry(std::string_view head, std::string_view text, std::size_t column);

// Fills paragraphs and entries that have a line over 80 columns. A paragraph is a run of lines without indentation. An
// entry is "  name  text" with the lines below that begin in the column of "text". An indented line that begins with
// "strobe" is a command to copy and continues after a backslash; other lines continue four columns to the right.
std::string wrap_help(std::string_view text);

// Prints wrap_help(text).
void print_help(std::string_view text);

}  // namespace strobe
