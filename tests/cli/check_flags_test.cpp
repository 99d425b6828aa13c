// Tests STROBE_CHECK_FLAGS=1, with which the program parses flags and values but reads, runs and writes nothing.
#include <gtest/gtest.h>

#include "cli/run_program.h"

namespace strobe::test {
namespace {

TEST(CheckFlags, AcceptsValidCommandsWithoutRunningThem) {
  const Scratch scratch;
  for (const char* arguments : {"bench --seq_len 128 --output out.json",
                                "sweep --grid lab5 --output out.jsonl",
                                "compare a.json b.json",
                                "report none.json --output out",
                                "explain --device cuda",
                                "solve in out",
                                "cases gen out --subset t01",
                                "cases check out answer",
                                "cases judge out",
                                "ladder --output out.jsonl",
                                "precision",
                                "comm --sizes 1M",
                                "plan --size xl --output out.json",
                                "launch -n 2 -- comm",
                                "env",
                                "lm bench --output out.json",
                                "lm profile --output out.json",
                                "lm memory --output out.json",
                                "lm train --data none.txt --out out",
                                "lm sample --checkpoint none"}) {
    const Program program = run_program(arguments, scratch, "STROBE_CHECK_FLAGS=1");
    EXPECT_EQ(program.code, 0) << arguments << "\n" << program.errors;
    EXPECT_EQ(program.output + program.errors, "") << arguments;
    EXPECT_EQ(scratch.entries(), 0u) << arguments;
  }
}

TEST(CheckFlags, RejectsWhatTheCommandRejects) {
  const Scratch scratch;
  for (const char* arguments :
       {"bnech", "bench --sequence 128", "bench --seq_len x", "bench --seq_len", "compare a.json", "report", "solve in",
        "cases gen", "cases check out", "cases judge", "plan --size 7x", "launch -n 2", "launch -n 0 -- comm",
        "lm train --data none.txt", "lm tain"}) {
    const Program program = run_program(arguments, scratch, "STROBE_CHECK_FLAGS=1");
    EXPECT_EQ(program.code, 2) << arguments << "\n" << program.output;
    EXPECT_EQ(run_program(arguments, scratch).errors, program.errors) << arguments;
    EXPECT_EQ(scratch.entries(), 0u) << arguments;
  }
}

TEST(CheckFlags, IsOffForOtherValues) {
  EXPECT_NE(run_program("precision", Scratch(), "STROBE_CHECK_FLAGS=0").output, "");
}

}  // namespace
}  // namespace strobe::test
