// Replays the fuzzer's corpus of problem files of the course (tests/data/problem_file_corpus) without libFuzzer, and
// 20,000 mutations of it from a fixed random seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <vector>

#include "support/corpus.h"
#include "support/fuzz_problem_file.h"

namespace strobe::solve {
namespace {

TEST(ProblemFileFuzz, OnlyCompleteSeedsAreAccepted) {
  EXPECT_GE(test::corpus("problem_file").size(), 13u);
  EXPECT_EQ(test::accepted_seeds("problem_file", test::fuzz_problem_file), (std::vector<std::string>{"one", "small"}));
}

TEST(ProblemFileFuzz, MutationsAreRejectedOrComplete) {
  const std::map<std::string, test::Bytes> files = test::corpus("problem_file");
  std::mt19937 random(7);
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random()) % limit; };
  constexpr std::uint8_t kBytes[] = {0x00, 0x01, 0x02, 0x03, 0x04, 0x7f, 0x80, 0xff};
  int taken = 0;
  for (int round = 0; round < 20000; ++round) {
    test::Bytes bytes = std::next(files.begin(), static_cast<std::ptrdiff_t>(below(files.size())))->second;
    for (std::size_t change = below(4); change > 0; --change) {
      if (below(4) == 0) bytes.resize(below(2) ? below(64) : 12 * (1 + below(30)));
      if (!bytes.empty()) bytes[below(std::min<std::size_t>(bytes.size(), 12))] = kBytes[below(8)];
    }
    taken += test::fuzz_problem_file(bytes.data(), bytes.size()) ? 1 : 0;
  }
  EXPECT_GT(taken, 100);  // many mutations remain valid
}

}  // namespace
}  // namespace strobe::solve
