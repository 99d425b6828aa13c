// The fuzzer's corpus, and thousands of mutations of it from a fixed seed, without libFuzzer.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <vector>

#include "support/fuzz_problem_file.h"

namespace strobe::solve {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::map<std::string, Bytes> corpus() {
  std::map<std::string, Bytes> files;
  for (const auto& entry : std::filesystem::directory_iterator(STROBE_TEST_DATA "/solve_corpus")) {
    if (entry.path().extension() == ".py") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().filename()] = Bytes(std::istreambuf_iterator<char>(file), {});
  }
  return files;
}

TEST(ProblemFileFuzz, CorpusIsToldApart) {
  std::vector<std::string> taken;
  const std::map<std::string, Bytes> files = corpus();
  for (const auto& [name, bytes] : files) {
    if (test::fuzz_problem_file(bytes.data(), bytes.size())) taken.push_back(name);
  }
  EXPECT_GE(files.size(), 13u);
  EXPECT_EQ(taken, (std::vector<std::string>{"one", "small"}));
}

TEST(ProblemFileFuzz, MutationsAreRefusedOrWhole) {
  const std::map<std::string, Bytes> files = corpus();
  std::mt19937 random(7);
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random()) % limit; };
  constexpr std::uint8_t kBytes[] = {0x00, 0x01, 0x02, 0x03, 0x04, 0x7f, 0x80, 0xff};
  int taken = 0;
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes = std::next(files.begin(), static_cast<std::ptrdiff_t>(below(files.size())))->second;
    for (std::size_t change = below(4); change > 0; --change) {
      if (below(4) == 0) bytes.resize(below(2) ? below(64) : 12 * (1 + below(30)));
      if (!bytes.empty()) bytes[below(std::min<std::size_t>(bytes.size(), 12))] = kBytes[below(8)];
    }
    taken += test::fuzz_problem_file(bytes.data(), bytes.size()) ? 1 : 0;
  }
  EXPECT_GT(taken, 100);  // both ways are walked
}

}  // namespace
}  // namespace strobe::solve
