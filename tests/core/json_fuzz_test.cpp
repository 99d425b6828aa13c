// Replays the fuzzer's corpus of JSON documents (tests/data/json_corpus) without libFuzzer, and mutations of it from
// fixed random seeds.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/corpus.h"
#include "support/fuzz_json.h"

namespace strobe {
namespace {

TEST(JsonFuzz, OnlyValidSeedsAreAccepted) {
  const std::vector<std::string> valid{"deep", "large_numbers", "nested", "scalar", "utf8"};
  EXPECT_EQ(test::accepted_seeds("json", test::fuzz_json), valid);
}

TEST(JsonFuzz, MutationsAreRejectedOrValid) {
  EXPECT_GT(test::accepted_json_mutations("json", 4000, test::fuzz_json), 1000);
}

}  // namespace
}  // namespace strobe
