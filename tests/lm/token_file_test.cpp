#include "lm/token_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <vector>

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
      FAIL() << "not refused: " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }

  const test::Scratch scratch_;
};

TEST_F(TokenFileTest, FormatIsSaidOrFollowsTheName) {
  EXPECT_EQ(data_format("auto", "a.txt"), DataFormat::text);
  EXPECT_EQ(data_format("auto", "train.bin"), DataFormat::tokens);
  EXPECT_EQ(data_format("auto", "train.tokens"), DataFormat::tokens);
  EXPECT_EQ(data_format("auto", "bin"), DataFormat::text);
  EXPECT_EQ(data_format("text", "train.bin"), DataFormat::text);
  EXPECT_EQ(data_format("tokens", "a.txt"), DataFormat::tokens);
}

TEST_F(TokenFileTest, TextIsBytes) {
  const TokenFile text(file("a.txt", "ab\xff\n01"), DataFormat::text, "--data");
  EXPECT_EQ(text.count(), 6);
  EXPECT_EQ(text.windows(2), 4);  // "01" has no successor of its last token
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

TEST_F(TokenFileTest, RefusesTokensBeyondTheVocabulary) {
  const TokenFile tokens(file("a.bin", std::string("\x01\x00\x10\x27", 4)), DataFormat::tokens, "--data");
  expect_refusal([&] { tokens.check_vocabulary(10'000); }, "its token 1 is 10000; valid: 0 to 9999");
}

TEST_F(TokenFileTest, RefusesWhatIsTooShort) {
  const TokenFile text(file("a.txt", "abcd"), DataFormat::text, "--val-data");
  EXPECT_EQ(text.windows(3), 1);
  expect_refusal([&] { text.windows(4); }, "has 4 tokens; a context of 4 needs at least 5");
  const TokenFile empty(file("b.txt", ""), DataFormat::text, "--data");
  expect_refusal([&] { empty.windows(1); }, "--data ");
}

TEST_F(TokenFileTest, RefusesHalfATokenAndMissingFiles) {
  const std::string odd = file("a.bin", "abc");
  expect_refusal([&] { TokenFile(odd, DataFormat::tokens, "--data"); }, "its 3 bytes are not whole tokens");
  expect_refusal([&] { TokenFile(odd + "x", DataFormat::text, "--data"); }, "No such file");
}

}  // namespace
}  // namespace strobe::lm
