// Replays the fuzzer's corpus of result files (tests/data/result_rows_corpus) without libFuzzer, and mutations of it
// from fixed random seeds.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/corpus.h"
#include "support/fuzz_result_rows.h"

namespace strobe::report {
namespace {

TEST(ResultRowsFuzz, OnlyValidSeedsAreAccepted) {
  const std::vector<std::string> valid{"gpu", "lines", "list", "markup", "one", "oom", "split_date"};
  EXPECT_EQ(test::accepted_seeds("result_rows", test::fuzz_result_rows), valid);
}

TEST(ResultRowsFuzz, MutationsAreRejectedOrValid) {
  EXPECT_GT(test::accepted_json_mutations("result_rows", 150, test::fuzz_result_rows), 10);
}

}  // namespace
}  // namespace strobe::report
