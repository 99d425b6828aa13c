// The fuzzer's corpus, and thousands of mutations of it from a fixed seed, without libFuzzer.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <vector>

#include "support/fuzz_safetensors.h"

namespace strobe::lm {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::map<std::string, Bytes> corpus() {
  std::map<std::string, Bytes> files;
  for (const auto& entry : std::filesystem::directory_iterator(STROBE_TEST_DATA "/safetensors_corpus")) {
    if (entry.path().extension() == ".py") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().filename()] = Bytes(std::istreambuf_iterator<char>(file), {});
  }
  return files;
}

TEST(SafeTensorsFuzz, CorpusIsToldApart) {
  std::vector<std::string> taken;
  const std::map<std::string, Bytes> files = corpus();
  for (const auto& [name, bytes] : files) {
    if (test::fuzz_safetensors(bytes.data(), bytes.size())) taken.push_back(name);
  }
  EXPECT_GE(files.size(), 24u);
  EXPECT_EQ(taken, (std::vector<std::string>{"one", "two"}));
}

TEST(SafeTensorsFuzz, MutationsAreRefusedOrWhole) {
  const std::map<std::string, Bytes> files = corpus();
  std::mt19937 random(7);
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random()) % limit; };
  const std::string letters = "0123456789{}[]\":,-.eEU8F32 \\u\xff\x01";
  int taken = 0;
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes = std::next(files.begin(), static_cast<std::ptrdiff_t>(below(files.size())))->second;
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
