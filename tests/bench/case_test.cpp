// Tests FLOPs and unmasked scores of a case against counts by hand, and predicted memory against published values.
#include "bench/case.h"

#include <gtest/gtest.h>

#include "bench/memory_model.h"

namespace strobe::bench {
namespace {

AttentionCase square(std::int64_t sequence) {
  return {.batch = 2, .heads = 4, .kv_heads = 4, .seqlen_q = sequence, .seqlen_k = sequence, .head_dim = 64};
}

TEST(Flops, CausalCountsHalfOfFull) {
  AttentionCase one = square(1024);
  EXPECT_DOUBLE_EQ(forward_flops(one), 4.0 * 2 * 4 * 1024 * 1024 * 64);
  EXPECT_DOUBLE_EQ(backward_flops(one), 2.5 * 4.0 * 2 * 4 * 1024 * 1024 * 64);
  one.causal = true;
  EXPECT_DOUBLE_EQ(forward_flops(one),
                   2.0 * 2 * 4 * 1024 * 1024 * 64);  // half by convention, not 1025/2048
}

TEST(Flops, ExactCountIfQueriesAndKeysDiffer) {
  AttentionCase one = {
      .batch = 1, .heads = 1, .kv_heads = 1, .seqlen_q = 3, .seqlen_k = 5, .head_dim = 8, .causal = true};
  one.alignment = Alignment::top_left;
  EXPECT_EQ(unmasked_scores(one), 1 + 2 + 3);
  EXPECT_DOUBLE_EQ(forward_flops(one), 4.0 * 6 * 8);
  one.alignment = Alignment::bottom_right;
  EXPECT_EQ(unmasked_scores(one), 3 + 4 + 5);
  one.seqlen_q = 5;
  one.seqlen_k = 3;  // the first two rows have no keys
  EXPECT_EQ(unmasked_scores(one), 0 + 0 + 1 + 2 + 3);
}

TEST(Flops, AWindowCountsOnlyItsScores) {
  AttentionCase one = {.batch = 1, .heads = 1, .kv_heads = 1, .seqlen_q = 4, .seqlen_k = 4, .head_dim = 1};
  one.window = {1, 0};
  EXPECT_EQ(unmasked_scores(one), 1 + 2 + 2 + 2);
  one.window = {1, 1};
  EXPECT_EQ(unmasked_scores(one), 2 + 3 + 3 + 2);
  one.causal = true;
  EXPECT_EQ(unmasked_scores(one), 1 + 2 + 2 + 2);
  one.window = {-1, 1};
  one.causal = false;
  EXPECT_EQ(unmasked_scores(one), 2 + 3 + 4 + 4);
}

TEST(Flops, LengthsCountOnlyTheirScores) {
  AttentionCase one = {.batch = 2, .heads = 3, .kv_heads = 3, .seqlen_q = 4, .seqlen_k = 4, .head_dim = 8};
  EXPECT_EQ(unmasked_scores(one), 2 * 16);
  one.options.lengths = {2, 3};
  EXPECT_EQ(unmasked_scores(one), 4 + 9);
  one.causal = true;
  EXPECT_EQ(unmasked_scores(one), 3 + 6);
  EXPECT_DOUBLE_EQ(forward_flops(one), 4.0 * 3 * 8 * 9);
  EXPECT_EQ(config_json(one).at("unmasked_scores").as_integer(), 3 * 9);
}

TEST(Masks, RowsAndKeysAgree) {
  for (const Alignment alignment : {Alignment::top_left, Alignment::bottom_right}) {
    for (const Window window : {Window{-1, -1}, Window{2, 0}, Window{0, 3}, Window{-1, 1}}) {
      for (const bool causal : {false, true}) {
        const AttentionCase one = {
            .seqlen_q = 7, .seqlen_k = 11, .causal = causal, .alignment = alignment, .window = window};
        for (std::int64_t row = 0; row < one.seqlen_q; ++row) {
          for (std::int64_t key = 0; key < one.seqlen_k; ++key) {
            const Keys keys = visible_keys(one, 0, row);
            const RowRange rows = attending_rows(one, 0, key);
            EXPECT_EQ(key >= keys.first && key < keys.last, row >= rows.first && row < rows.last) << row << " " << key;
          }
        }
      }
    }
  }
}

TEST(MemoryModel, PlainAttentionHasThePublishedBytes) {
  const AttentionCase one = {.batch = 8, .seqlen_q = 16384, .seqlen_k = 16384, .head_dim = 16, .dtype = DType::fp32};
  const MemoryModel model = predict_plain(one);
  constexpr std::int64_t kMegabyte = 1 << 20;
  ASSERT_EQ(model.forward.size(), 3u);
  EXPECT_EQ(model.forward[0].bytes, 24 * kMegabyte);
  EXPECT_EQ(model.forward[1].bytes, 8192 * kMegabyte);
  EXPECT_EQ(model.forward[2].bytes, 8 * kMegabyte);
  EXPECT_EQ(model.forward_bytes(), 8224 * kMegabyte);
  EXPECT_EQ(model.backward_bytes(), 8192 * kMegabyte);
}

TEST(MemoryModel, Flash2DoesNotGrowWithTheSquare) {
  AttentionCase one = square(1024);
  const std::int64_t small = predict_kernel(one, "flash2").backward_bytes();
  one.seqlen_q = one.seqlen_k = 8192;
  EXPECT_LT(predict_kernel(one, "flash2").backward_bytes(), 16 * small);
}

TEST(AttentionCase, BiasIsCountedByItsShape) {
  AttentionCase one = square(16);
  one.options.bias = "1h1k";
  one.options.bias_gradient = true;
  EXPECT_EQ(bias_shape(one), (std::array<std::int64_t, 4>{1, 4, 1, 16}));
  EXPECT_EQ(tensor_bytes(one).bias, 4 * 16 * 2);
  EXPECT_EQ(tensor_bytes(one).dbias, 4 * 16 * 4);
}

TEST(AttentionCase, OverflowingSizesAreRejected) {
  const AttentionCase one = {.batch = std::int64_t{1} << 40, .seqlen_q = std::int64_t{1} << 40};
  EXPECT_THROW(tensor_bytes(one), Error);
}

TEST(Inputs, AreTheSameForAnyNumberOfThreadsWithMean0AndVariance1) {
  AttentionCase one = square(100);
  one.dtype = DType::fp32;
  const Inputs a = make_inputs(one, 7);
  one.threads = 3;
  const Inputs b = make_inputs(one, 7);
  ASSERT_EQ(a.q.bytes(), b.q.bytes());
  EXPECT_EQ(std::string_view(a.q.as<char>(), a.q.bytes()), std::string_view(b.q.as<char>(), b.q.bytes()));
  double sum = 0;
  double squares = 0;
  const std::size_t count = a.q.bytes() / sizeof(float);
  for (std::size_t i = 0; i < count; ++i) {
    const double x = a.q.as<float>()[i];
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / static_cast<double>(count), 0, 0.03);
  EXPECT_NEAR(squares / static_cast<double>(count), 1, 0.05);
}

TEST(AttentionCase, IsDeterministicOnACpuAndOnRequestOnAGpu) {
  AttentionCase one;
  EXPECT_TRUE(execution_of(one).deterministic);
  one.device = Device::cuda;
  EXPECT_FALSE(execution_of(one).deterministic);
  EXPECT_EQ(config_json(one).find("deterministic"), nullptr);
  one.deterministic = true;
  EXPECT_TRUE(execution_of(one).deterministic);
  EXPECT_TRUE(config_json(one).at("deterministic").as_bool());
  EXPECT_NE(describe(one).find(", deterministic"), std::string::npos) << describe(one);
}

// A sweep starts `strobe bench` with these flags, so every member must be among them.
TEST(AttentionCase, FlagsDescribeAllMembersOfACase) {
  AttentionCase one{.batch = 3, .heads = 4, .kv_heads = 2, .seqlen_q = 100, .seqlen_k = 50, .head_dim = 16};
  const auto flags = [&] { return fmt::format("{}", fmt::join(flags_of(one), " ")); };
  EXPECT_EQ(flags(),
            "--batch_size 3 --seq_len 100 --num_heads 4 --emb_dim 64 --dtype fp16 --num_kv_heads 2 --seq_len_k 50 "
            "--device cpu --threads 1");
  one.dtype = DType::fp32;
  one.tf32 = one.deterministic = one.causal = true;
  one.passes = Passes::backward;
  one.alignment = Alignment::bottom_right;
  one.window = {8, -1};
  one.cache = Cache::hot;
  one.options = {.softcap = 5,
                 .alibi = true,
                 .bias = "1hqk",
                 .bias_gradient = true,
                 .sinks = true,
                 .dropout = 0.25,
                 .lengths = {20, 30, 40}};
  AttentionCase read;
  Given<AttentionCase> given;
  OptionTable table;
  for (const Field<AttentionCase>& field : fields<AttentionCase>()) add_field(table, field, given);
  const std::vector<std::string> words = flags_of(one);
  table.parse(std::vector<std::string_view>(words.begin(), words.end()));
  for (const Field<AttentionCase>& field : fields<AttentionCase>()) {
    EXPECT_EQ(field.text(given.values), field.text(one)) << field.key;
  }
}

}  // namespace
}  // namespace strobe::bench
