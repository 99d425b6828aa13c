// Tests token files: formats, checks, and windows, which are the training sequences. Also tests the random order of
// windows in an epoch.
#include "lm/data/token_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "core/crc32.h"
#include "strobe/error.h"
#include "support/scratch.h"

namespace strobe::lm {
namespace {

class TokenFileTest : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& bytes) const {
    std::ofstream(scratch_.path() / name, std::ios::binary) << bytes;
    return (scratch_.path() / name).string();
  }

  template <class Call>
  void expect_refusal(Call call, const std::string& part) const {
    try {
      call();
      FAIL() << "not rejected: " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }

  const test::Scratch scratch_;
};

TEST_F(TokenFileTest, FormatIsGivenOrFollowsTheName) {
  EXPECT_EQ(data_format("auto", "a.txt"), DataFormat::text);
  EXPECT_EQ(data_format("auto", "train.bin"), DataFormat::tokens);
  EXPECT_EQ(data_format("auto", "train.tokens"), DataFormat::tokens);
  EXPECT_EQ(data_format("auto", "bin"), DataFormat::text);
  EXPECT_EQ(data_format("text", "train.bin"), DataFormat::text);
  EXPECT_EQ(data_format("tokens", "a.txt"), DataFormat::tokens);
  EXPECT_EQ(data_format("tokens32", "a.bin"), DataFormat::tokens32);
}

TEST_F(TokenFileTest, TextIsBytes) {
  const TokenFile text(file("a.txt", "ab\xff\n01"), DataFormat::text, "--data");
  EXPECT_EQ(text.count(), 6);
  EXPECT_EQ(text.windows(2), 4);  // a window of two tokens needs a third as its last target
  std::vector<std::int32_t> tokens(2), targets(2);
  text.read_window(2, 2, tokens.data(), targets.data());
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{255, 10}));
  EXPECT_EQ(targets, (std::vector<std::int32_t>{10, 48}));
  EXPECT_NO_THROW(text.check_vocabulary(256));
}

TEST_F(TokenFileTest, TokensAreLittleEndianWords) {
  const TokenFile tokens_file(file("a.bin", std::string("\x01\x00\x02\x01\x50\xc4", 6)), DataFormat::tokens, "--data");
  EXPECT_EQ(tokens_file.count(), 3);
  std::vector<std::int32_t> tokens(2), targets(2);
  tokens_file.read_window(0, 2, tokens.data(), targets.data());
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{1, 258}));
  EXPECT_EQ(targets, (std::vector<std::int32_t>{258, 50256}));
  EXPECT_NO_THROW(tokens_file.check_vocabulary(50257));
}

TEST_F(TokenFileTest, RejectsTokensBeyondTheVocabulary) {
  const TokenFile tokens(file("a.bin", std::string("\x01\x00\x10\x27", 4)), DataFormat::tokens, "--data");
  expect_refusal([&] { tokens.check_vocabulary(10'000); }, "its token 1 is 10000; valid: 0 to 9999");
}

std::string words(const std::vector<std::uint32_t>& tokens, std::size_t bytes) {
  std::string text;
  for (const std::uint32_t token : tokens) text.append(reinterpret_cast<const char*>(&token), bytes);
  return text;
}

// Returns `count` random tokens of a vocabulary.
std::vector<std::uint32_t> spread(std::size_t count, std::uint32_t vocabulary) {
  std::vector<std::uint32_t> tokens(count);
  std::mt19937 random(7);
  for (std::uint32_t& token : tokens) token = static_cast<std::uint32_t>(random()) % vocabulary;
  return tokens;
}

TEST_F(TokenFileTest, Tokens32AreLittleEndianWords) {
  const std::string path = file("a.bin", words({1, 70'000, 128'255}, 4));
  const TokenFile wide(path, DataFormat::tokens32, "--data");
  EXPECT_EQ(wide.count(), 3);
  std::vector<std::int32_t> tokens(2), targets(2);
  wide.read_window(0, 2, tokens.data(), targets.data());
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{1, 70'000}));
  EXPECT_EQ(targets, (std::vector<std::int32_t>{70'000, 128'255}));
  EXPECT_NO_THROW(wide.check_vocabulary(128'256));
  expect_refusal([&] { wide.check_vocabulary(100'000); }, "its token 2 is 128255; valid: 0 to 99999");
  const TokenFile huge(file("b.bin", words({1, 0xfffffffe}, 4)), DataFormat::tokens32, "--data");
  expect_refusal([&] { huge.check_vocabulary(50'000); }, "its token 1 is 4294967294; valid: 0 to 49999");
  expect_refusal([&] { TokenFile(file("c.bin", "abcdef"), DataFormat::tokens32, "--data"); },
                 "not a multiple of the token size 4");
}

TEST_F(TokenFileTest, RejectsAWidthThatContradictsTheVocabulary) {
  for (const std::uint32_t vocabulary : {300u, 10'000u, 50'257u}) {  // the upper 16 bits of every token are 0
    const std::string path = file("a.bin", words(spread(1001, vocabulary), 4));
    const TokenFile narrow(path, DataFormat::tokens, "--data");
    expect_refusal([&] { narrow.check_vocabulary(vocabulary); },
                   "its tokens are uint32, not uint16: every other uint16 word is at most 0; --data-format tokens32");
    EXPECT_NO_THROW(TokenFile(path, DataFormat::tokens32, "--data").check_vocabulary(vocabulary));
  }
  const TokenFile high(file("b.bin", words(spread(1001, 65'536 + 9'000), 4)), DataFormat::tokens, "--data");
  expect_refusal([&] { high.check_vocabulary(65'536); }, "every other uint16 word is at most 1;");
  expect_refusal([&] { high.check_vocabulary(100'000); },
                 "the largest uint16 token is 65535, but the vocabulary has 100000; valid: --data-format tokens32");
  const TokenFile wide(file("c.bin", words(spread(1000, 50'257), 2)), DataFormat::tokens32, "--data");
  expect_refusal([&] { wide.check_vocabulary(50'257); }, "its token 0 is ");
  for (const std::uint32_t vocabulary : {2u, 300u, 65'536u}) {
    const TokenFile right(file("d.bin", words(spread(1001, vocabulary), 2)), DataFormat::tokens, "--data");
    EXPECT_NO_THROW(right.check_vocabulary(vocabulary));
  }
}

// Files are scanned in chunks. These files have several chunks, with the invalid token in the last one.
TEST_F(TokenFileTest, IsScannedCompletely) {
  std::string text(3 * (1 << 20) + 5, 'a');
  text.back() = 'c';
  const TokenFile data(file("a.txt", text), DataFormat::text, "--data");
  EXPECT_EQ(data.checksum(), crc32(text));
  EXPECT_NO_THROW(data.check_vocabulary(100));
  expect_refusal([&] { data.check_vocabulary(99); }, "its token 3145732 is 99; valid: 0 to 98");
  std::vector<std::uint32_t> tokens = spread((1 << 20) + 1, 500);
  tokens.back() = 700;
  const TokenFile last(file("a.bin", words(tokens, 2)), DataFormat::tokens, "--data");
  EXPECT_EQ(last.checksum(), crc32(words(tokens, 2)));
  expect_refusal([&] { last.check_vocabulary(700); }, "its token 1048576 is 700; valid: 0 to 699");
}

TEST_F(TokenFileTest, RejectsTooFewTokens) {
  const TokenFile text(file("a.txt", "abcd"), DataFormat::text, "--val-data");
  EXPECT_EQ(text.windows(3), 1);
  expect_refusal([&] { text.windows(4); }, "has 4 tokens; a context of 4 needs at least 5");
  const TokenFile empty(file("b.txt", ""), DataFormat::text, "--data");
  expect_refusal([&] { empty.windows(1); }, "--data ");
}

TEST_F(TokenFileTest, RejectsHalfATokenAndMissingFiles) {
  const std::string odd = file("a.bin", "abc");
  expect_refusal([&] { TokenFile(odd, DataFormat::tokens, "--data"); },
                 "its 3 bytes are not a multiple of the token size 2");
  expect_refusal([&] { TokenFile(odd + "x", DataFormat::text, "--data"); }, "No such file");
}

std::vector<std::int64_t> epoch_of(const WindowOrder& order, std::int64_t windows, std::int64_t epoch) {
  std::vector<std::int64_t> found;
  for (std::int64_t i = 0; i < windows; ++i) found.push_back(order.at(epoch * windows + i));
  return found;
}

TEST(WindowOrder, EveryEpochHasEveryWindowOnce) {
  for (const std::int64_t windows : {1, 2, 3, 4, 5, 7, 16, 17, 100, 1000, 4097}) {
    const WindowOrder order(11, windows);
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      const std::vector<std::int64_t> found = epoch_of(order, windows, epoch);
      const std::set<std::int64_t> all(found.begin(), found.end());
      EXPECT_EQ(std::ssize(all), windows);
      EXPECT_EQ(*all.begin(), 0);
      EXPECT_EQ(*all.rbegin(), windows - 1);
    }
  }
}

TEST(WindowOrder, EpochsAndSeedsDiffer) {
  const std::int64_t windows = 64;
  const WindowOrder order(1, windows);
  EXPECT_NE(epoch_of(order, windows, 0), epoch_of(order, windows, 1));
  EXPECT_NE(epoch_of(order, windows, 0), epoch_of(WindowOrder(2, windows), windows, 0));
  EXPECT_EQ(epoch_of(order, windows, 5), epoch_of(WindowOrder(1, windows), windows, 5));
}

// All 6 orders of 3 windows occur in 200 epochs.
TEST(WindowOrder, AllOrdersOccur) {
  const WindowOrder order(3, 3);
  std::set<std::vector<std::int64_t>> orders;
  for (std::int64_t epoch = 0; epoch < 200; ++epoch) orders.insert(epoch_of(order, 3, epoch));
  EXPECT_EQ(orders.size(), 6u);
}

// The order is computed, not stored, so 2^40 windows need no memory.
TEST(WindowOrder, Supports2To40Windows) {
  const std::int64_t windows = (std::int64_t{1} << 40) + 1;
  const WindowOrder order(3, windows);
  std::set<std::int64_t> found;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const std::int64_t window = order.at(windows - 500 + i);
    EXPECT_GE(window, 0);
    EXPECT_LT(window, windows);
    found.insert(window);
  }
  EXPECT_EQ(found.size(), 1000u);
}

}  // namespace
}  // namespace strobe::lm
