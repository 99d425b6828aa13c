// Replays the fuzzer's corpus of result rows of the course ladder (tests/data/ladder_rows_corpus) without libFuzzer,
// and mutations of it from fixed random seeds.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/corpus.h"
#include "support/fuzz_ladder_rows.h"

namespace strobe::report {
namespace {

TEST(LadderRowsFuzz, OnlyValidSeedsAreAccepted) {
  const std::vector<std::string> valid{"control_name", "counters", "heading", "rungs", "split_date"};
  EXPECT_EQ(test::accepted_seeds("ladder_rows", test::fuzz_ladder_rows), valid);
}

TEST(LadderRowsFuzz, MutationsAreRejectedOrValid) {
  EXPECT_GT(test::accepted_json_mutations("ladder_rows", 150, test::fuzz_ladder_rows), 10);
}

}  // namespace
}  // namespace strobe::report
