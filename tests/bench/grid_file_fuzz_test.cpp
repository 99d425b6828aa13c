// Replays the fuzzer's corpus of grid files of a sweep (tests/data/grid_file_corpus) without libFuzzer.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/corpus.h"
#include "support/fuzz_grid_file.h"

namespace strobe::bench {
namespace {

TEST(GridFileFuzz, OnlyValidSeedsAreAccepted) {
  const std::vector<std::string> valid{"empty_value", "equals", "flash", "lab5_small", "many"};
  EXPECT_EQ(test::accepted_seeds("grid_file", test::fuzz_grid_file), valid);
}

}  // namespace
}  // namespace strobe::bench
