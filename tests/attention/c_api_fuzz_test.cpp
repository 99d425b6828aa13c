// Replays the fuzzer's corpus of calls of the C ABI (tests/data/c_api_corpus) without libFuzzer, and random inputs from
// fixed random seeds.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "support/corpus.h"
#include "support/fuzz_c_api.h"

namespace strobe {
namespace {

TEST(CApiFuzz, SeedsBreakNoRule) { EXPECT_FALSE(test::accepted_seeds("c_api", test::fuzz_c_api).empty()); }

TEST(CApiFuzz, RandomDescriptionsAreRejectedOrComputed) {
  std::mt19937 random(11);
  int computed = 0;
  std::vector<std::uint8_t> bytes(200);
  for (int round = 0; round < 3000; ++round) {
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    computed += test::fuzz_c_api(bytes.data(), bytes.size()) ? 1 : 0;
  }
  EXPECT_GT(computed, 100);
}

}  // namespace
}  // namespace strobe
