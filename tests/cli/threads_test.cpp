// --threads and STROBE_THREADS, of commands that end soon.
#include <gtest/gtest.h>

#include "cli/run_program.h"
#include "core/json.h"

namespace strobe::test {
namespace {

TEST(Threads, AFlagOrHelpNeedsNoVariable) {
  const Scratch scratch;
  for (const char* arguments :
       {"lm bench --help", "lm profile --help", "lm memory --help", "lm train --help", "lm sample --help",
        "bench --help", "env --help", "plan --help", "explain --quick --seq_len 32 --threads 2",
        "lm bench --quick --size tiny --context 8 --batch 1 --warmup 0 --steps 1 --threads 2 --output out.json"}) {
    const Program program = run_program(arguments, scratch, "STROBE_THREADS=no");
    EXPECT_EQ(program.code, 0) << arguments << "\n" << program.errors;
  }
  const Json document = Json::parse(scratch.read("out.json"));
  EXPECT_EQ(document.at("rows").as_array().at(0).at("threads").as_integer(), 2);
}

TEST(Threads, AreTheVariablesWhereNotTold) {
  const Scratch scratch;
  const std::string bench = "bench --quick --repeats 1 --batch_size 1 --seq_len 32 --output out.json";
  const Program measured = run_program(bench, scratch, "STROBE_THREADS=3");
  EXPECT_NE(measured.output.find("cpu, 3 threads"), std::string::npos) << measured.output << measured.errors;
  for (const std::string& arguments :
       {std::string("lm bench --quick --size tiny"), std::string("env --quick"), bench}) {
    const Program program = run_program(arguments, scratch, "STROBE_THREADS=0");
    EXPECT_EQ(program.code, 2) << arguments;
    EXPECT_EQ(program.errors, "strobe: STROBE_THREADS 0: not a whole number in the valid range 1..1024\n");
  }
}

}  // namespace
}  // namespace strobe::test
