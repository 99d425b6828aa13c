// Tests core/case_text: the text of a case, such as "b2 s128 bf16", is split into names and values and becomes flags.
#include "core/case_text.h"

#include <gtest/gtest.h>

#include "strobe/error.h"

namespace strobe {
namespace {

std::string joined_words(std::string_view text) {
  std::string all;
  for (const CaseWord& word : case_words(text)) all += word.name + "=" + word.value + ";";
  return all;
}

std::string refused_word(std::string_view text) {
  try {
    case_words(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "accepted";
}

TEST(CaseText, SizesUseTheNamesOfFlags) {
  EXPECT_EQ(joined_words("b2 h4/2 s100x37 d24/16 bf16 causal=bottom_right window=3:-1 sinks"),
            "batch_size=2;num_heads=4;num_kv_heads=2;seq_len=100;seq_len_k=37;head_dim=24;head_dim_v=16;dtype=bf16;"
            "causal=on;align=bottom_right;window=3:-1;sinks=on;");
  EXPECT_EQ(joined_words(" \tb1,2 s8,16x4 e64 fp32,fp16 causal=both softcap=0.5\r"),
            "batch_size=1,2;seq_len=8,16;seq_len_k=4;emb_dim=64;dtype=fp32,fp16;causal=both;softcap=0.5;");
  EXPECT_EQ(joined_words("causal bias=1hqk h8"), "causal=on;bias=1hqk;num_heads=8;");
  EXPECT_EQ(joined_words(""), "");
}

TEST(CaseText, RejectsOtherWordsByName) {
  for (const char* word : {"b2x", "b2/3", "h4/", "h/2", "s100x", "s100/37", "d24x16", "e4,,5", "b2,", "B2", "2b",
                           "x=", "=3", "--causal", "-b", "fp32,int8", "caus\x1b"}) {
    EXPECT_EQ(refused_word(std::string("b2 ") + word + " h4").find("\""), 0u) << word;
  }
  EXPECT_EQ(refused_word("b2x").find("\"b2x\": not part of a case; valid: bN, hN/KV, sNxK, "), 0u);
}

TEST(CaseText, BecomesFlagsUpToTheFirstFlag) {
  using Words = std::vector<std::string>;
  const auto flags = [](const Words& words) { return with_case_flags(words); };
  EXPECT_EQ(flags({"h4/2", "bf16", "causal", "window=3:0", "--impl", "flash2,standard"}),
            (Words{"--num_heads=4", "--num_kv_heads=2", "--dtype=bf16", "--causal", "--window=3:0", "--impl",
                   "flash2,standard"}));
  EXPECT_EQ(flags({"--seq_len", "8", "b2"}), (Words{"--seq_len", "8", "b2"}));
  EXPECT_EQ(flags({"stray", "b2"}), (Words{"stray", "b2"}));
  EXPECT_EQ(flags({}), Words{});
  EXPECT_THROW(flags({"b2", "S3"}), Error);
}

}  // namespace
}  // namespace strobe
