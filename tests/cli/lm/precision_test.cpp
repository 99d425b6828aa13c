// Tests `strobe precision`, which prints tables of rounding effects.
#include <gtest/gtest.h>

#include "cli/run_program.h"

namespace strobe::test {
namespace {

TEST(Precision, PrintsItsTables) {
  const Program program = run_program("precision");
  ASSERT_EQ(program.code, 0) << program.errors;
  std::size_t position = 0;
  for (const char* text : {"10.0001", "9.9531", "10.0021", "10.0021", "mixed fp16", "fc1's output", "logits",
                           "gradient of fc1's weight", "fp32 inside"}) {
    position = program.output.find(text, position);
    ASSERT_NE(position, std::string::npos) << text << " in order in\n" << program.output;
    ++position;
  }
  EXPECT_EQ(run_program("precision now").code, 2);
  EXPECT_EQ(run_program("precision --x").errors, "strobe: --x: unknown flag; all flags: strobe precision --help\n");
  EXPECT_EQ(run_program("precision --help").code, 0);
}

}  // namespace
}  // namespace strobe::test
