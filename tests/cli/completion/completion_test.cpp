// Tests `strobe completion`: shells evaluate the script and ask it for the words that may follow a command line.
#include <gmock/gmock.h>

#include "cli/run_program.h"

namespace strobe::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// Returns the words that bash proposes for the last word of `line`.
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
  EXPECT_EQ(proposals("bench --output \"\"").output, "\n");  // the shell proposes files
}

TEST(Completion, PrintsAScriptForEachShellAndRejectsOthers) {
  EXPECT_THAT(run_program("completion bash").output, HasSubstr("complete -o default -F _strobe strobe"));
  const Program zsh = run_program("completion zsh");
  EXPECT_THAT(zsh.output, HasSubstr("compdef _strobe strobe"));
  EXPECT_THAT(zsh.output, Not(HasSubstr("COMPREPLY")));
  const Program fish = run_program("completion fish");
  EXPECT_EQ(fish.code, 2);
  EXPECT_EQ(fish.errors, "strobe: completion fish: valid: bash, zsh\n");
  EXPECT_EQ(run_program("completion").code, 2);
}

}  // namespace
}  // namespace strobe::test
