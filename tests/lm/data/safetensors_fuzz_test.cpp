// The fuzzer's corpus, and thousands of mutations of it from a fixed seed, without libFuzzer.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <vector>

#include "support/corpus.h"
#include "support/fuzz_safetensors.h"

namespace strobe::lm {
namespace {

TEST(SafeTensorsFuzz, OnlyWholeSeedsAreAccepted) {
  EXPECT_GE(test::corpus("safetensors").size(), 24u);
  EXPECT_EQ(test::accepted_seeds("safetensors", test::fuzz_safetensors), (std::vector<std::string>{"one", "two"}));
}

TEST(SafeTensorsFuzz, MutationsAreRefusedOrWhole) {
  const std::map<std::string, test::Bytes> files = test::corpus("safetensors");
  std::mt19937 random(7);
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random()) % limit; };
  const std::string letters = "0123456789{}[]\":,-.eEU8F32 \\u\xff\x01";
  int taken = 0;
  for (int round = 0; round < 20000; ++round) {
    test::Bytes bytes = std::next(files.begin(), static_cast<std::ptrdiff_t>(below(files.size())))->second;
    for (std::size_t change = below(3); change > 0 && !bytes.empty(); --change) {
      const std::size_t place = below(std::min<std::size_t>(bytes.size(), 200));
      switch (below(4)) {
        case 0: bytes.resize(place); break;
        case 1: bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(place), std::uint8_t{0}); break;
        default: bytes[place] = static_cast<std::uint8_t>(letters[below(letters.size())]);
      }
    }
    taken += test::fuzz_safetensors(bytes.data(), bytes.size()) ? 1 : 0;
  }
  EXPECT_GT(taken, 100);  // the whole ones, and changes of names or data
}

}  // namespace
}  // namespace strobe::lm
