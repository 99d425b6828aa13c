// Commands by name, for the program and for a command that has commands of its own.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace strobe {

inline constexpr int kFine = 0;
inline constexpr int kFailedCheck = 1;
inline constexpr int kBadInput = 2;
inline constexpr int kRuntimeFailure = 3;

using Arguments = std::span<const std::string_view>;

struct Command {
  const char* name;
  const char* help;  // a line
  int (*run)(Arguments);
};

// A line for each, names and help in columns.
std::string lines_of(std::span<const Command> commands);

// `before` is what a person types before the name: "lm ", or nothing. Throws Error(invalid_argument) for another name.
const Command& find_command(std::span<const Command> commands, std::string_view before, std::string_view name);

bool asks_for_help(std::string_view word);  // --help, -h

}  // namespace strobe
