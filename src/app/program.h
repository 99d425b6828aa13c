// Runs a program's main function: standard descriptors, signals, exceptions and exit codes. Finds commands by name.
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

// Calls `run` with the words after the program's name and returns the exit code. `name` begins each line on standard
// error. On a signal, temporary files are removed and the program ends. If the input is bad, calls `refuse` with the
// error, and prints the error unless `refuse` returns true.
int run_as_program(const char* name, int count, char** words, int (*run)(Arguments),
                   bool (*refuse)(std::string_view line) = nullptr);

// Thrown inside `run` to end the program with kFine because its flags are valid (see only_checks_flags()).
struct FlagsAccepted {};

// Returns true if the environment has STROBE_CHECK_FLAGS=1. OptionTable::parse then throws FlagsAccepted before any
// work, so that tools/check-docs can check the commands of the documentation.
bool only_checks_flags();

// Opens a substitute for each of the descriptors 0 to 2 that is closed. Otherwise a file that the program opens could
// get such a number, and output would overwrite the file. Standard input becomes an empty file. Standard output and
// standard error become read-only: a write fails with EBADF, as on a closed descriptor, so lost results are still
// reported.
void secure_standard_descriptors() noexcept;

// A command of a program, or a subcommand of a command.
struct Command {
  const char* name;
  const char* help;  // one line
  int (*run)(Arguments);
};

// Returns one line per command with its name and help, wrapped to 80 columns.
std::string lines_of(std::span<const Command> commands);

// Returns the command with this name. `before` is the text that the user types before the name, such as "lm ", or "".
// Throws Error(invalid_argument) for an unknown name.
const Command& find_command(std::span<const Command> commands, std::string_view before, std::string_view name);

// Runs the command that the first argument names and passes it the other arguments.
int run_command(std::span<const Command> commands, std::string_view before, Arguments arguments);

bool asks_for_help(std::string_view word);  // --help, -h

// Quotes a word for a shell.
std::string quoted(std::string_view word);

// Returns "strobe NAME WORD ..." with quoted words: the command that reproduces a result row.
std::string quoted_command(std::string_view name, std::span<const std::string_view> words);

}  // namespace strobe
