// Tests the smaller cases that the bench suggests if a case exceeds the memory, by comparison with every case that is
// smaller along one axis.
#include "bench/nearest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "bench/case.h"
#include "bench/implementation.h"

namespace strobe::bench {
namespace {

AttentionCase small_case(std::int64_t batch, std::int64_t kv_heads, std::int64_t per_kv_head, std::int64_t rows,
                         std::int64_t keys) {
  AttentionCase one;
  one.batch = batch;
  one.kv_heads = kv_heads;
  one.heads = kv_heads * per_kv_head;
  one.seqlen_q = rows;
  one.seqlen_k = keys;
  one.head_dim = 16;
  one.dtype = DType::fp32;
  return one;
}

// Returns every case that is smaller than `one` along a single axis.
std::vector<AttentionCase> all_with_one_axis_smaller(const AttentionCase& one) {
  std::vector<AttentionCase> cases;
  const auto add = [&](auto&& change) {
    AttentionCase smaller = one;
    change(smaller);
    fit_lengths(smaller);
    cases.push_back(smaller);
  };
  for (std::int64_t batch = 1; batch < one.batch; ++batch) add([&](AttentionCase& smaller) { smaller.batch = batch; });
  for (std::int64_t rows = 1; rows < one.seqlen_q; ++rows) {
    add([&](AttentionCase& smaller) { smaller.seqlen_q = smaller.seqlen_k = rows; });
  }
  const std::int64_t step = one.kv_heads == 1 ? 1 : one.heads / one.kv_heads;
  for (std::int64_t heads = step; heads < one.heads; heads += step) {
    add([&](AttentionCase& smaller) {
      smaller.heads = heads;
      smaller.kv_heads = one.kv_heads == 1 ? 1 : heads / step;
    });
  }
  return cases;
}

double most_work(const AttentionCase& one, const Fits& fits) {
  double most = 0;
  for (const AttentionCase& smaller : all_with_one_axis_smaller(one)) {
    if (fits(smaller)) most = std::max(most, forward_flops(smaller) / forward_flops(one));
  }
  return most;
}

TEST(Nearest, HasTheMostWorkOfAllCasesWithOneSmallerAxis) {
  std::mt19937 random(3);
  const auto up_to = [&](std::int64_t most) { return 1 + static_cast<std::int64_t>(random() % most); };
  const auto flash2 = make_implementation("flash2", {}), standard = make_implementation("standard", {});
  int found = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const std::int64_t rows = up_to(120);
    AttentionCase one = small_case(up_to(9), up_to(5), up_to(3), rows, rows);
    one.causal = trial % 2 == 1;
    if (trial % 5 == 0)
      one.options.lengths.assign(static_cast<std::size_t>(one.batch), static_cast<std::int32_t>(rows));
    Implementation& implementation = trial % 3 == 0 ? *standard : *flash2;
    const std::int64_t limit = implementation.needed_bytes(one) * up_to(99) / 100;
    const Fits fits = [&](const AttentionCase& smaller) { return implementation.needed_bytes(smaller) <= limit; };
    const double most = most_work(one, fits);
    if (most == 0) continue;
    ++found;
    const std::vector<SmallerCase> nearest = nearest_that_fit(one, fits);
    ASSERT_FALSE(nearest.empty());
    EXPECT_TRUE(fits(nearest[0].one));
    EXPECT_EQ(nearest[0].work, most) << describe(one) << ": " << flags_between(one, nearest[0].one);
    EXPECT_EQ(forward_flops(nearest[0].one) / forward_flops(one), most);
  }
  EXPECT_GT(found, 40);
}

TEST(Nearest, ListsTheCaseWithTheMostWorkFirst) {
  const AttentionCase one = small_case(8, 4, 2, 100, 100);
  const Fits fits = [&](const AttentionCase& smaller) { return forward_flops(smaller) <= 0.8 * forward_flops(one); };
  EXPECT_EQ(advice_on(one, fits),
            "fits: --seq_len 89 (79.2 % of the work), --batch_size 6 (75 %), "
            "--num_heads 6 --num_kv_heads 3 --emb_dim 96 (75 %)");
}

TEST(Nearest, KeepsTheRatioOfQueriesToKeys) {
  const AttentionCase one = small_case(1, 1, 1, 10, 1000);
  const Fits fits = [](const AttentionCase& smaller) { return smaller.seqlen_k <= 500; };
  EXPECT_EQ(advice_on(one, fits), "fits: --seq_len 5 --seq_len_k 500 (25 % of the work)");
}

TEST(Nearest, MakesTheBatchOneIfNoSingleAxisIsEnough) {
  const AttentionCase one = small_case(64, 1, 4, 64, 64);
  const auto tokens = [](const AttentionCase& smaller) { return smaller.batch * smaller.heads * smaller.seqlen_q; };
  EXPECT_EQ(advice_on(one, [&](const AttentionCase& smaller) { return tokens(smaller) <= 48; }),
            "fits: --batch_size 1 --seq_len 12 (0.0549 % of the work)");
  EXPECT_EQ(advice_on(one, [&](const AttentionCase& smaller) { return tokens(smaller) <= 3; }),
            "fits: --batch_size 1 --seq_len 3 --num_heads 1 --emb_dim 16 (0.000858 % of the work)");
  EXPECT_EQ(advice_on(one, [](const AttentionCase&) { return false; }),
            "no smaller batch, sequence or number of heads fits");
}

TEST(Nearest, ProposesBf16InsteadOfFp32IfItFits) {
  AttentionCase one = small_case(2, 1, 1, 8, 8);
  const Fits fits = [&](const AttentionCase& some) { return some.batch == 1 || some.dtype == DType::bf16; };
  EXPECT_EQ(advice_on(one, fits), "fits: --batch_size 1 (50 % of the work), --dtype bf16");
  one.dtype = DType::fp16;
  EXPECT_EQ(advice_on(one, fits), "fits: --batch_size 1 (50 % of the work)");
}

TEST(Nearest, ReducesTheLengthsWithTheBatch) {
  AttentionCase one = small_case(3, 1, 1, 1, 1);
  one.options.lengths = {1, 1, 1};
  EXPECT_EQ(advice_on(one, [](const AttentionCase& smaller) { return smaller.batch <= 2; }),
            "fits: --batch_size 2 --lengths 1,1 (66.7 % of the work)");
}

}  // namespace
}  // namespace strobe::bench
