// Tests the launcher script ./strobe and .ci/run up to the point where they would build.
#include <gtest/gtest.h>

#include "cli/run_program.h"

namespace strobe::test {
namespace {

TEST(Launcher, RejectsUnknownInputAndLeavesNothing) {
  const Scratch scratch;
  // A source tree that has only the launcher and the presets, so that every file left behind is noticed.
  ASSERT_EQ(run_command("cp '" STROBE_SOURCE_DIR "/strobe' '" STROBE_SOURCE_DIR "/CMakePresets.json' .", scratch).code,
            0);
  const auto refused = [&](const std::string& variables, const std::string& says,
                           const std::string& arguments = "bench") {
    const Program program = run_command(variables + " ./strobe " + arguments, scratch);
    EXPECT_EQ(program.code, 2) << program.errors;
    EXPECT_EQ(program.errors.substr(0, 8 + says.size()), "strobe: " + says);
    EXPECT_EQ(std::count(program.errors.begin(), program.errors.end(), '\n'), 1) << program.errors;
    EXPECT_EQ(program.output, "");
    EXPECT_EQ(scratch.entries(), 2u);
  };
  refused("STROBE_PRESET=nope", "STROBE_PRESET is 'nope'; valid: release, cuda, debug, asan, tsan");
  refused("STROBE_PRESET=base", "STROBE_PRESET is 'base'; valid: release, cuda, debug, asan, tsan");
  refused("STROBE_PRESET= STROBE_CUDA=perhaps", "STROBE_CUDA is 'perhaps'; valid: on, off, auto");
  refused("", "test --foo: not an accepted ctest flag; valid: -R -E ", "test --foo");
  refused("", "test -Z: not an accepted ctest flag", "test -R cli -j 2 -Z");
  refused("", "test -Z: not an accepted ctest flag", "test --repeat=until-pass:2 -Z");
  refused("", "test cli: not a flag; valid: -R cli, ", "test cli");
  refused("", "test -R: needs a value", "test -j 2 -R");
  // Valid ctest flags pass the check of flags, so the command fails at the preset.
  refused("STROBE_PRESET=nope", "STROBE_PRESET is 'nope'; valid",
          "test -R -x -LE slow -j4 -VV --repeat until-fail:3 --show-only=json-v1 --output-on-failure");

  const Program help = run_command("./strobe test --help", scratch);
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.errors, "");
  EXPECT_EQ(help.output.find("usage: ./strobe test [CTEST FLAGS...]\n"), 0u) << help.output;
  EXPECT_EQ(scratch.entries(), 2u);
}

TEST(Launcher, PrintsHelpBeforeTheFirstBuild) {
  const Scratch scratch;
  ASSERT_EQ(run_command("cp -r '" STROBE_SOURCE_DIR "/strobe' '" STROBE_SOURCE_DIR
                        "/CMakePresets.json' . && mkdir docs && cp -r '" STROBE_SOURCE_DIR "/docs/commands' docs",
                        scratch)
                .code,
            0);
  const auto printed = [&](const std::string& arguments) {
    const Program program = run_command("./strobe " + arguments, scratch);
    EXPECT_EQ(program.code, 0) << arguments;
    EXPECT_EQ(program.errors, "") << arguments;
    EXPECT_EQ(scratch.entries(), 3u) << arguments;
    return program.output;
  };
  const std::string commands = scratch.read("docs/commands/strobe.txt");
  for (const char* arguments : {"", "--help", "-h", "help"}) {
    EXPECT_TRUE(printed(arguments).starts_with(commands)) << arguments;
    EXPECT_NE(printed(arguments).find("\n  docs "), std::string::npos) << arguments;
  }
  EXPECT_EQ(printed("bench --help"), scratch.read("docs/commands/bench.txt"));
  EXPECT_EQ(printed("bench --seq_len 8 -h"), scratch.read("docs/commands/bench.txt"));
  EXPECT_EQ(printed("lm train --help"), scratch.read("docs/commands/lm-train.txt"));
  EXPECT_EQ(printed("help lm train"), scratch.read("docs/commands/lm-train.txt"));
  EXPECT_EQ(printed("help cases"), scratch.read("docs/commands/cases.txt"));
}

// .ci/run searches nvcc in the same folders as ./strobe. Its stage `install` needs a build, so it fails at once here.
// The error names the build folder of the selected preset.
TEST(CiRun, FindsNvccInCudaHome) {
  const Scratch scratch;
  const std::string setup =
      "mkdir -p .ci cuda/bin && cp '" STROBE_SOURCE_DIR
      "/.ci/run' .ci && touch cuda/bin/nvcc && chmod +x cuda/bin/nvcc && CUDA_HOME=\"$PWD/cuda\" .ci/run install";
  const Program program = run_command("{ " + setup + "; }", scratch);
  EXPECT_NE(program.code, 0);
  EXPECT_NE(program.output.find("nothing is built in build/cuda;"), std::string::npos) << program.output;
}

}  // namespace
}  // namespace strobe::test
