// The program `strobe`: finds the command and runs it. run_as_program() turns errors and signals into exit codes.
#include <fmt/format.h>

#include <vector>

#include "app/help.h"
#include "app/program.h"
#include "app/terminal.h"
#include "cli/verbs.h"
#include "core/fail.h"
#include "core/printable.h"
#include "measure/environment.h"

namespace strobe::cli {
namespace {

int run_version(Arguments arguments) {
  if (!arguments.empty() && asks_for_help(arguments[0])) {
    print_help("usage: strobe version\n\nPrints the version and the revision of this build.\n");
    return kFine;
  }
  if (!arguments.empty()) {
    fail(ErrorCode::invalid_argument, "\"{}\": version takes no arguments", printable(arguments[0]));
  }
  print(fmt::format("strobe {} ({})\n", build_version(), build_revision()));
  return kFine;
}

int run_help(Arguments arguments);
void check_command(std::string_view name);

constexpr Command kCommands[] = {
    {"bench", "compare implementations on one configuration", run_bench},
    {"sweep", "measure a grid of configurations, one child process each; resumes where it stopped", run_sweep},
    {"compare", "compare two result files cell by cell: ratios, intervals, verdicts", run_compare},
    {"report", "draw result files: one page with charts, tables and pictures", run_report},
    {"explain", "kernels that support a configuration, with reasons, tiles, memory, best time", run_explain},
    {"solve", "read a file of Q, K and V batches, write a file of outputs", run_solve},
    {"cases", "the course's 30 problem files: generate, check answers, judge a program", run_cases},
    {"ladder", "from a sequential program to the library's kernel, step by step: table and chart", run_ladder},
    {"lm", "a language model on this attention: bench, profile, memory, train, sample", run_lm},
    {"precision", "effect of fp16 and bf16 on sums, norms and a model's tensors", run_precision},
    {"comm", "check and time collectives by size and number of ranks", run_comm},
    {"launch", "start and supervise N ranks of a command or program on this machine",
     [](Arguments arguments) { return run_launch(arguments, check_command); }},
    {"plan", "predict memory and time of training on 8 to 16,384 devices", run_plan},
    {"env", "describe this machine: processor, libraries, measured ceilings", run_env},
    {"completion", "print a completion script for bash or zsh", run_completion},
    {"version", "print version and revision of this build", run_version},
    {"help", "print this text, or the help of a command", run_help},
};

void check_command(std::string_view name) { find_command(kCommands, "", name); }

std::string program_help() {
  return "strobe: exact attention, measured.\n\nusage: strobe COMMAND [--flag value ...]\n\n" + lines_of(kCommands) +
         "\nstrobe COMMAND --help lists the flags of a command.\n\n"
         "Exit codes: 0: success; 1: failed check; 2: bad input, or nothing can run on this machine;\n"
         "3: failure at run time, or nothing fits the memory; 128 + signal: ended by a signal (130: Ctrl-C).\n";
}

int run_help(Arguments arguments) {
  const bool of_group = !arguments.empty() && arguments[0] == "lm";  // "lm train" is the name of one command
  if (arguments.size() > (of_group ? 2 : 1)) {
    fail(ErrorCode::invalid_argument, "\"{}\": help takes the name of one command", printable(arguments.back()));
  }
  if (!arguments.empty() && !asks_for_help(arguments[0])) {
    const Command& command = find_command(kCommands, "", arguments[0]);
    std::vector<std::string_view> words(arguments.begin() + 1, arguments.end());
    words.emplace_back("--help");
    if (command.run != run_help && command.run != run_version) return command.run(words);
  }
  print_help(program_help());
  return kFine;
}

int dispatch(Arguments arguments) {
  take_launchers_file();
  if (arguments.empty()) return run_help({});
  if (asks_for_help(arguments[0])) return run_help(arguments.subspan(1));
  if (arguments[0] == "--version") return run_version(arguments.subspan(1));
  return run_command(kCommands, "", arguments);
}

}  // namespace
}  // namespace strobe::cli

int main(int count, char** words) {
  return strobe::run_as_program("strobe", count, words, strobe::cli::dispatch, strobe::cli::report_to_launcher);
}
