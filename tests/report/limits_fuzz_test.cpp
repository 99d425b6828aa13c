// Replays the fuzzer's corpus of limits files of `strobe compare --require` (tests/data/limits_corpus) without
// libFuzzer.
#include <gtest/gtest.h>

#include "support/corpus.h"
#include "support/fuzz_limits.h"

namespace strobe::report {
namespace {

TEST(LimitsFuzz, OnlyValidSeedsAreAccepted) {
  const std::vector<std::string> valid{"hopper", "made_up", "noise"};
  EXPECT_EQ(test::accepted_seeds("limits", test::fuzz_limits), valid);
}

}  // namespace
}  // namespace strobe::report
