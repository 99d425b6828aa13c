// The fuzzer's seeds, and mutations of them from fixed random seeds, without libFuzzer.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/corpus.h"
#include "support/fuzz_settings.h"

namespace strobe::lm {
namespace {

TEST(SettingsFuzz, OnlyValidSeedsAreAccepted) {
  const std::vector<std::string> valid{"gpt2", "llama", "no_arch"};
  EXPECT_EQ(test::accepted_seeds("settings", test::fuzz_settings), valid);
}

TEST(SettingsFuzz, MutationsAreRefusedOrValid) {
  EXPECT_GT(test::accepted_json_mutations("settings", 2000, test::fuzz_settings), 20);
}

}  // namespace
}  // namespace strobe::lm
