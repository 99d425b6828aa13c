// Words as a shell takes them: for the command that repeats a row.
#pragma once

#include <string>
#include <string_view>

namespace strobe::cli {

std::string quoted(std::string_view word);

}  // namespace strobe::cli
