// Implements `strobe lm COMMAND`: finds the command of the language model and runs it.
#include "cli/verbs.h"

#include <string>

#include "app/help.h"
#include "app/terminal.h"

namespace strobe::cli {
namespace {

constexpr Command kLmCommands[] = {
    {"bench", "times, rates and memory of a training step, phase by phase", run_lm_bench},
    {"profile", "time of a step by operation and kind, and a trace for Perfetto", run_lm_profile},
    {"memory", "memory of a step: every allocation and tensor, as tables and a picture", run_lm_memory},
    {"train", "train a model on a text or token file; checkpoints resume bit for bit", run_lm_train},
    {"sample", "generate text from a checkpoint", run_lm_sample},
};

std::string lm_help() {
  return "strobe lm: a decoder language model on this library's attention.\n\n"
         "usage: strobe lm COMMAND [--flag value ...]\n\n" +
         lines_of(kLmCommands) + "\nstrobe lm COMMAND --help lists the flags of a command.\n";
}

}  // namespace

int run_lm(Arguments arguments) {
  if (arguments.empty() || asks_for_help(arguments[0]) || arguments[0] == "help") {
    print_help(lm_help());
    return kFine;
  }
  return run_command(kLmCommands, "lm ", arguments);
}

}  // namespace strobe::cli
