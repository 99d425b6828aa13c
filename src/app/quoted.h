// Words as a shell takes them: for the command that repeats a row.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace strobe {

std::string quoted(std::string_view word);

// "strobe NAME WORD ...".
std::string quoted_command(std::string_view name, std::span<const std::string_view> words);

}  // namespace strobe
