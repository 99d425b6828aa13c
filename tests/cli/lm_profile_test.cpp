// `strobe lm profile` as a user runs it.
#include <gtest/gtest.h>

#include "cli/run_program.h"
#include "core/json.h"

namespace strobe::test {
namespace {

TEST(LmProfile, EveryCellHasItsKindsOperationsAndATrace) {
  const Scratch scratch;
  const Program program =
      run_program("lm profile --context 8 --batch 1 --threads 1 --warmup 1 --steps 2 --precision fp32,bf16", scratch);
  EXPECT_EQ(program.code, 0) << program.errors;
  for (const char* const words : {"matrix products:", "wall clock", "swiglu backward", "GFLOP/s"}) {
    EXPECT_NE(program.output.find(words), std::string::npos) << program.output;
  }
  const Json document = Json::parse(scratch.read("lm_profile_result.json"));
  const auto& rows = document.at("rows").as_array();
  ASSERT_EQ(rows.size(), 2u);
  for (const Json& row : rows) {
    EXPECT_LE(row.at("operations(ms)").as_number(), row.at("wall(ms)").as_number());
    EXPECT_GT(row.at("product_share_of_forward").as_number(), 0);
    EXPECT_LT(row.at("product_share_of_step").as_number(), 1);
    EXPECT_EQ(row.at("kinds").size(), 7u);
  }
  const Json trace = Json::parse(scratch.read("lm_profile_trace.json"));
  EXPECT_GT(trace.at("traceEvents").size(), 2u * 2 * 90);
}

TEST(LmProfile, RefusesWhatCannotRunBeforeAnythingDoes) {
  for (const char* const flags : {"--device cuda", "--size huge", "--steps 0", "--pass step"}) {
    const Scratch scratch;
    const Program program = run_program(std::string("lm profile ") + flags, scratch);
    EXPECT_EQ(program.code, 2) << flags << program.errors;
    EXPECT_EQ(scratch.entries(), 0u) << flags;
  }
}

}  // namespace
}  // namespace strobe::test
