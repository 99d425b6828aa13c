// The fuzzer's seeds, and mutations of them from fixed random seeds, without libFuzzer.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/corpus.h"
#include "support/fuzz_run_file.h"

namespace strobe::lm {
namespace {

TEST(RunFileFuzz, OnlyValidSeedsAreAccepted) {
  const std::vector<std::string> valid{"job", "old", "plain"};
  EXPECT_EQ(test::accepted_seeds("run_file", test::fuzz_run_file), valid);
}

TEST(RunFileFuzz, MutationsAreRefusedOrValid) {
  EXPECT_GT(test::accepted_json_mutations("run_file", 2000, test::fuzz_run_file), 20);
}

}  // namespace
}  // namespace strobe::lm
