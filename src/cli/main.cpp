// The program `strobe`: finds the subcommand.
#include <vector>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/program.h"
#include "core/fail.h"
#include "core/printable.h"
#include "measure/environment.h"

namespace strobe::cli {
namespace {

struct Command {
  const char* name;
  const char* help;
  int (*run)(Arguments);
};

int run_version(Arguments arguments) {
  if (!arguments.empty()) {
    fail(ErrorCode::invalid_argument, "\"{}\": version takes no arguments", printable(arguments[0]));
  }
  print(fmt::format("strobe {} ({})\n", build_version(), build_revision()));
  return kFine;
}

int run_help(Arguments arguments);

constexpr Command kCommands[] = {
    {"bench", "measure implementations on one configuration, side by side", run_bench},
    {"sweep", "measure a grid of configurations, one child process each; goes on where it was stopped", run_sweep},
    {"compare", "two result files, cell by cell: ratios, intervals, verdicts", run_compare},
    {"report", "result files to one page with charts, tables and pictures", run_report},
    {"explain", "what each kernel says of a configuration: verdict, tiles, memory, best time", run_explain},
    {"solve", "a file of batches of Q, K, V in, a file of outputs out", run_solve},
    {"cases", "the course's 30 problem files: make them, check answers, judge a program", run_cases},
    {"ladder", "from a sequential program to the library's kernel, step by step: table and chart", run_ladder},
    {"env", "this machine: processor, libraries, measured ceilings", run_env},
    {"version", "version and revision of this build", run_version},
    {"help", "this text, or that of a command", run_help},
};

std::string help_text() {
  std::string text = "strobe: exact attention, measured.\n\nusage: strobe COMMAND [--flag value ...]\n\n";
  for (const Command& command : kCommands) text += fmt::format("  {:<9}{}\n", command.name, command.help);
  return text +
         "\nstrobe COMMAND --help lists the flags of a command.\n"
         "Exit codes: 0 fine, 1 failed check, 2 bad input, 3 failure at run time, 129/130/143 interrupted.\n";
}

const Command& find_command(std::string_view name) {
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    if (name == command.name) return command;
    names.emplace_back(command.name);
  }
  const std::vector<std::string> near = nearest(name, names);
  fail(ErrorCode::invalid_argument, "\"{}\": unknown command; {}: {}", printable(name),
       near.size() < names.size() ? "nearest" : "valid", fmt::join(near, ", "));
}

bool asks_for_help(std::string_view word) { return word == "--help" || word == "-h"; }

int run_help(Arguments arguments) {
  if (arguments.size() > 1) {
    fail(ErrorCode::invalid_argument, "\"{}\": help takes the name of one command", printable(arguments[1]));
  }
  if (!arguments.empty() && !asks_for_help(arguments[0])) {
    const Command& command = find_command(arguments[0]);
    const std::string_view flag = "--help";
    if (command.run != run_help && command.run != run_version) return command.run({&flag, 1});
  }
  print(help_text());
  return kFine;
}

int dispatch(Arguments arguments) {
  if (arguments.empty()) return run_help({});
  if (asks_for_help(arguments[0])) return run_help(arguments.subspan(1));
  if (arguments[0] == "--version") return run_version(arguments.subspan(1));
  return find_command(arguments[0]).run(arguments.subspan(1));
}

}  // namespace
}  // namespace strobe::cli

int main(int count, char** words) { return strobe::cli::run_as_program("strobe", count, words, strobe::cli::dispatch); }
