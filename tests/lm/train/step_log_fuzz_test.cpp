// The fuzzer's seeds, and mutations of them from fixed random seeds, without libFuzzer.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/corpus.h"
#include "support/fuzz_step_log.h"

namespace strobe::lm {
namespace {

TEST(StepLogFuzz, OnlyValidSeedsAreAccepted) {
  const std::vector<std::string> valid{"empty", "resumed_earlier", "skipped", "torn", "whole"};
  EXPECT_EQ(test::accepted_seeds("step_log", test::fuzz_step_log), valid);
}

}  // namespace
}  // namespace strobe::lm
