// Tests the limits of a safetensors header and which header texts are rejected.
#include "lm/data/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <random>
#include <vector>

#include "core/json.h"
#include "strobe/error.h"
#include "support/corpus.h"
#include "support/fuzz_safetensors.h"

namespace strobe::lm {
namespace {

std::string file_of(std::uint64_t length, const std::string& header) {
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + header;
}

std::string refusal(const std::string& file) {
  try {
    parse_safetensors(file, "f");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(SafeTensors, RejectsAHeaderAboveTheSizeLimit) {
  EXPECT_EQ(refusal(file_of(Json::kMaxBytes + 1, "{")), "f: its header has 67108865 bytes; valid: up to 67108864");
  EXPECT_EQ(refusal(file_of(100'000'001, "{")),
            "f: is not a safetensors file: it does not begin with the length of a header");
}

TEST(SafeTensors, RejectsNamesThatAreNotUtf8) {
  const std::string fine = R"({"__metadata__":{"é":"x"}})", bad = "{\"__metadata__\":{\"\xe9\":\"x\"}}";
  EXPECT_EQ(refusal(file_of(fine.size(), fine)), "");
  EXPECT_EQ(refusal(file_of(bad.size(), bad)), "f: its header: json: a byte that is not UTF-8 at byte 18 of 26");
}

TEST(SafeTensorsFuzz, OnlyCompleteSeedsAreAccepted) {
  EXPECT_GE(test::corpus("safetensors").size(), 24u);
  EXPECT_EQ(test::accepted_seeds("safetensors", test::fuzz_safetensors), (std::vector<std::string>{"one", "two"}));
}

TEST(SafeTensorsFuzz, MutationsAreRejectedOrComplete) {
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
  EXPECT_GT(taken, 100);  // mutations that change only names or data remain valid
}

}  // namespace
}  // namespace strobe::lm
