// The program `hw4 INPUT OUTPUT`, which is `strobe solve` without flags. The course prescribes the name.
#include "app/program.h"
#include "app/terminal.h"
#include "cli/course/solve_lines.h"
#include "core/fail.h"
#include "core/printable.h"

namespace strobe::cli {
namespace {

int run_hw4(Arguments arguments) {
  for (const std::string_view word : arguments) {
    if (word.starts_with("--"))  // `strobe solve --help` describes the layout of both files
      fail(ErrorCode::invalid_argument, "{}: hw4 has no flags; valid: hw4 INPUT OUTPUT, or strobe solve with flags",
           printable_value(word));
  }
  if (arguments.size() != 2) {
    fail(ErrorCode::invalid_argument, "two arguments are needed, INPUT and OUTPUT; {} given", arguments.size());
  }
  print(solve_lines(solve_with_signal_message("", std::string(arguments[0]), std::string(arguments[1]))));
  return kFine;
}

}  // namespace
}  // namespace strobe::cli

int main(int count, char** words) { return strobe::run_as_program("hw4", count, words, strobe::cli::run_hw4); }
