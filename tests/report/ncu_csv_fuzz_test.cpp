// Replays the fuzzer's corpus of CSV output of ncu (tests/data/ncu_csv_corpus) without libFuzzer.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/corpus.h"
#include "support/fuzz_ncu_csv.h"

namespace strobe::report {
namespace {

TEST(NcuCsvFuzz, OnlyValidSeedsAreAccepted) {
  const std::vector<std::string> valid{"two_launches", "units"};
  EXPECT_EQ(test::accepted_seeds("ncu_csv", test::fuzz_ncu_csv), valid);
}

}  // namespace
}  // namespace strobe::report
