// The frame of a program: standard descriptors, signals, exceptions, exit codes, and commands by name.
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

// Calls `run` with the words after the program's name and returns the exit code; `name` begins each line on standard
// error. A signal removes temporary files and ends the program. Bad input is printed unless `refuse` returns true.
int run_as_program(const char* name, int count, char** words, int (*run)(Arguments),
                   bool (*refuse)(std::string_view line) = nullptr);

// Ends the program with kFine from anywhere in `run`: its flags and their values are valid.
struct FlagsAccepted {};

// True if the environment has STROBE_CHECK_FLAGS=1: OptionTable::parse then throws FlagsAccepted before any work.
// tools/check-docs checks the commands of the documentation this way.
bool only_checks_flags();

// Opens a substitute for each closed descriptor of 0 to 2. Otherwise a file of the program could get such a number, and
// Substitute for standard input: an empty file. Substitute for standard output or standard error: opened read-only, so
// writing fails with EBADF as on a closed descriptor, and lost results are still reported.
void secure_standard_descriptors() noexcept;

// A command of a program, or of a command that has subcommands.
struct Command {
  const char* name;
  const char* help;  // one line
  int (*run)(Arguments);
};

// One entry per command, names and help in columns, in 80 columns.
std::string lines_of(std::span<const Command> commands);

// `before` is what a person types before the name: "lm ", or nothing. Throws Error(invalid_argument) for another name.
const Command& find_command(std::span<const Command> commands, std::string_view before, std::string_view name);

// Runs the command that the first argument names, with the other arguments.
int run_command(std::span<const Command> commands, std::string_view before, Arguments arguments);

bool asks_for_help(std::string_view word);  // --help, -h

// Quotes a word for a shell. quoted_command returns "strobe NAME WORD ...", the command that repeats a row.
std::string quoted(std::string_view word);
std::string quoted_command(std::string_view name, std::span<const std::string_view> words);

}  // namespace strobe
