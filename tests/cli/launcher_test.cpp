// The launcher ./strobe, as far as it ends before it builds anything.
#include <gtest/gtest.h>

#include "cli/run_program.h"

namespace strobe::test {
namespace {

TEST(Launcher, RefusesWhatItDoesNotKnowAndLeavesNothing) {
  const Scratch scratch;
  // A root with the launcher and the presets alone, so that whatever it would leave is seen.
  ASSERT_EQ(run_command("cp '" STROBE_SOURCE_DIR "/strobe' '" STROBE_SOURCE_DIR "/CMakePresets.json' .", scratch).code,
            0);
  const auto refused = [&](const std::string& variables, const std::string& says) {
    const Program program = run_command(variables + " ./strobe bench", scratch);
    EXPECT_EQ(program.code, 2) << program.errors;
    EXPECT_EQ(program.errors, "strobe: " + says + "\n");
    EXPECT_EQ(program.output, "");
    EXPECT_EQ(scratch.entries(), 2u);
  };
  refused("STROBE_PRESET=nope", "STROBE_PRESET is 'nope'; it may be release, cuda, debug, asan, tsan");
  refused("STROBE_PRESET=base", "STROBE_PRESET is 'base'; it may be release, cuda, debug, asan, tsan");
  refused("STROBE_PRESET= STROBE_CUDA=perhaps", "STROBE_CUDA is 'perhaps'; it may be on, off or auto");
}

}  // namespace
}  // namespace strobe::test
