// --seed and --quick: the same help and the same errors in every command that has them.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "cli/run_program.h"

namespace strobe::test {
namespace {

// The text after the flag's placeholder in the command's --help, or "" if the command has no such flag.
std::string help_of(const std::string& command, const std::string& flag) {
  const std::string help = run_program(command + " --help").output;
  const std::size_t line = help.find("\n  " + flag);
  if (line == std::string::npos) return "";
  const std::size_t text = help.find("  ", line + 3);
  return help.substr(text, help.find('\n', text) - text).substr(help.find_first_not_of(' ', text) - text);
}

const std::vector<std::string> kCommands = {"bench",      "sweep",     "explain",     "env",          "ladder",
                                            "comm",       "plan",      "precision",   "solve in out", "compare a b",
                                            "report",     "cases gen", "cases judge", "lm bench",     "lm memory",
                                            "lm profile", "lm train",  "lm sample"};

std::vector<std::string> commands_with(const std::string& flag) {
  std::vector<std::string> commands;
  for (const std::string& command : kCommands) {
    if (!help_of(command, flag).empty()) commands.push_back(command);
  }
  return commands;
}

// The one help text and the one error for a bad value.
void expect_one_definition(const std::string& flag, const std::string& bad, const std::string& error) {
  std::set<std::string> texts;
  for (const std::string& command : commands_with(flag)) {
    texts.insert(help_of(command, flag));
    const Program program = run_program(command + " " + flag + "=" + bad);
    EXPECT_EQ(program.code, 2) << command;
    EXPECT_EQ(program.errors, "strobe: " + flag + " " + bad + ": " + error + "\n") << command;
  }
  EXPECT_EQ(texts.size(), 1u);
}

TEST(CommonOptions, SeedIsTheSameEverywhere) {
  EXPECT_EQ(commands_with("--seed"),
            (std::vector<std::string>{"bench", "sweep", "cases gen", "lm train", "lm sample"}));
  for (const char* bad : {"-1", "9223372036854775808", "1.5", "x"}) {
    expect_one_definition("--seed", bad, "not a whole number in the valid range 0 or more");
  }
}

TEST(CommonOptions, QuickIsTheSameEverywhere) {
  EXPECT_EQ(commands_with("--quick"),
            (std::vector<std::string>{"bench", "sweep", "explain", "env", "lm bench", "lm train"}));
  expect_one_definition("--quick", "1", "valid: on, off");
}

}  // namespace
}  // namespace strobe::test
