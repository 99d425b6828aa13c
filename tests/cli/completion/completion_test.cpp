// Tests `strobe completion`, which prints a shell script, and the words that the script proposes for a command line.
#include <gtest/gtest.h>

#include "cli/run_program.h"

namespace strobe::test {
namespace {

// Returns the completions that bash proposes for the last word of `line`.
Program proposals(const std::string& line) {
  const Scratch scratch;
  return run_command("CUDA_VISIBLE_DEVICES= bash -c 'eval \"$(\"" STROBE_PROGRAM
                     "\" completion bash)\"; COMP_WORDS=(\"" STROBE_PROGRAM "\" " +
                         line +
                         "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _strobe; printf \"%s\\n\" \"${COMPREPLY[@]}\"'",
                     scratch);
}

TEST(Completion, ProposesCommandsFlagsAndValues) {
  EXPECT_EQ(proposals("swe").output, "sweep\n");
  EXPECT_EQ(proposals("lm tr").output, "train\n");
  EXPECT_EQ(proposals("bench --batch_s").output, "--batch_size\n");
  EXPECT_EQ(proposals("bench --batch_size 4 --head_").output, "--head_dim\n");
  EXPECT_EQ(proposals("bench --dtype \"\"").output, "fp32\nfp16\nbf16\n");
  EXPECT_EQ(proposals("bench --causal o").output, "off\non\n");
  EXPECT_EQ(proposals("bench --dtype = b").output, "bf16\n");  // bash splits --dtype=b
  EXPECT_EQ(proposals("sweep --grid lab5-").output, "lab5-axes\nlab5-small\n");
  EXPECT_EQ(proposals("sweep --dry-run --retr").output, "--retry\n");
  EXPECT_EQ(proposals("sweep --check --retr").output, "--retry\n");  // the value of --check is optional
}

TEST(Completion, LeavesFilesAndFreeValuesToTheShell) {
  EXPECT_EQ(proposals("bench --output \"\"").output, "\n");
  EXPECT_EQ(proposals("bench --seq-len \"\"").output, "\n");
  EXPECT_EQ(proposals("report \"\"").output, "\n");
  EXPECT_EQ(proposals("report --outp").output, "--output\n");
}

TEST(Completion, PrintsAScriptForEachShellAndRefusesOthers) {
  EXPECT_NE(run_program("completion bash").output.find("complete -o default -F _strobe strobe"), std::string::npos);
  const Program zsh = run_program("completion zsh");
  EXPECT_NE(zsh.output.find("compdef _strobe strobe"), std::string::npos);
  EXPECT_EQ(zsh.output.find("COMPREPLY"), std::string::npos);
  const Program fish = run_program("completion fish");
  EXPECT_EQ(fish.code, 2);
  EXPECT_EQ(fish.errors, "strobe: completion fish: valid: bash, zsh\n");
  EXPECT_EQ(run_program("completion").code, 2);
}

}  // namespace
}  // namespace strobe::test
