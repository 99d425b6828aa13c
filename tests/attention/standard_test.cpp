// Tests `standard` and `frugal`: their vector loops against scalar conversions and the C library, the same bits for any
// number of threads and in both kernels, OpenBLAS's thread count, memory use, and profiling scopes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "attention/kernel_list.h"
#include "attention/standard/rows.h"
#include "attention/validate.h"
#include "device/host/blas_library.h"
#include "device/host/profile_scope.h"
#include "support/compare.h"

namespace strobe {
namespace {

using test::Case;

bool same_or_both_nan(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

TEST(Standard, RoundsAsTheScalarConversionsDo) {
  // Covers every exponent and sign, with mantissas around each tie; 997 is coprime to the powers of two.
  for (std::uint64_t bits = 0; bits <= 0xffffffffu; bits += 997) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    ASSERT_TRUE(same_or_both_nan(standard::round_bf16(x), round_to(DType::bf16, x))) << x;
    ASSERT_TRUE(same_or_both_nan(standard::round_fp16(x), round_to(DType::fp16, x))) << x;
  }
  for (std::uint32_t high = 0; high <= 0xffffu; ++high) {
    for (const std::uint32_t low : {0x0000u, 0x0fffu, 0x1000u, 0x1001u, 0x3000u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const auto x = std::bit_cast<float>(high << 16 | low);
      ASSERT_TRUE(same_or_both_nan(standard::round_bf16(x), round_to(DType::bf16, x))) << x;
      ASSERT_TRUE(same_or_both_nan(standard::round_fp16(x), round_to(DType::fp16, x))) << x;
    }
  }
}

TEST(Standard, ConvertsRowsAsTheScalarConversionsDo) {
  for (std::uint32_t bits = 0; bits <= 0xffffu; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    ASSERT_TRUE(same_or_both_nan(standard::widen_fp16(half), fp16_to_float(half))) << bits;
  }
  for (std::uint64_t bits = 0; bits <= 0xffffffffu; bits += 991) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    ASSERT_EQ(standard::narrow_fp16(x), float_to_fp16(x)) << x;
    ASSERT_EQ(standard::narrow_bf16(x), float_to_bf16(x)) << x;
  }
}

TEST(Standard, ExponentialIsAccurate) {
  for (float x = 0; x >= -86.9f; x -= 0.00037f) {
    const double exact = std::exp(static_cast<double>(x));
    ASSERT_NEAR(standard::exp_negative(x), exact, 1.5e-7 * exact) << x;
  }
  EXPECT_EQ(standard::exp_negative(0), 1);
  EXPECT_EQ(standard::exp_negative(-1e30f), 0);
  EXPECT_EQ(standard::exp_negative(-standard::kInfinity), 0);
  EXPECT_TRUE(std::isnan(standard::exp_negative(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Standard, SoftmaxOfMaskedAndNanRows) {
  std::vector<float> masked(5, -standard::kInfinity);
  EXPECT_EQ(standard::softmax_row(masked.data(), 5, nullptr).lse, -standard::kInfinity);
  EXPECT_EQ(masked, std::vector<float>(5, 0.0f));
  const float sink = 2;
  masked.assign(5, -standard::kInfinity);
  const standard::Softmax only_sink = standard::softmax_row(masked.data(), 5, &sink);
  EXPECT_EQ(only_sink.lse, 2);
  EXPECT_EQ(only_sink.sink, 1);
  std::vector<float> lost(40, std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(std::isnan(standard::softmax_row(lost.data(), 40, nullptr).lse));
  EXPECT_TRUE(std::isnan(lost[39]));
}

Case case_with_options(DType dtype) {
  return test::case_from(
      "b2 h4/2 s150x131 d40/24 {} causal=bottom_right window=100:-1 softcap=4 alibi bias=1h1k sinks "
      "dropout=0.2 lengths_q=150,90 lengths_k=131,77",
      name_of(dtype));
}

TEST(Standard, SameBitsForAnyNumberOfThreads) {
  for (const DType dtype : {DType::fp32, DType::fp16, DType::bf16}) {
    const test::Data data(case_with_options(dtype));
    const test::Outcome one = test::run(data, {.kernel = "standard", .threads = 1});
    EXPECT_EQ(one.complaint, "");
    for (const int threads : {2, 3, 5}) {
      const test::Outcome many = test::run(data, {.kernel = "standard", .threads = threads, .own_workspace = true});
      EXPECT_EQ(many.complaint, "");
      EXPECT_EQ(test::first_difference(one.results, many.results), "") << threads << " threads";
    }
  }
}

// The two kernels differ only in where they store scores. Batch 1 has fewer KV heads (2) than frugal has threads (3).
TEST(Standard, FrugalHasTheSameBits) {
  for (const DType dtype : {DType::fp32, DType::fp16, DType::bf16}) {
    for (const std::int64_t batch : {1, 6}) {
      Case c = case_with_options(dtype);
      c.batch = batch, c.lengths = test::Lengths::none, c.lengths_q = c.lengths_k = {};
      for (const bool options : {true, false}) {
        if (!options) c.bias = c.alibi = c.sinks = false, c.softcap = 0, c.dropout = 0;
        const test::Data data(c);
        const test::Outcome standard = test::run(data, {.kernel = "standard", .threads = 2, .own_workspace = true});
        const test::Outcome frugal = test::run(data, {.kernel = "frugal", .threads = 3, .own_workspace = true});
        EXPECT_EQ(standard.complaint + frugal.complaint, "");
        EXPECT_EQ(test::first_difference(standard.results, frugal.results), "") << name_of(dtype) << " batch " << batch;
      }
    }
  }
}

// The error must have the order of the dtype's roundoff. A smaller one would make the exactness rule too strict for
// other kernels.
TEST(Standard, ErrorHasTheOrderOfTheRoundoff) {
  for (const DType dtype : {DType::fp32, DType::fp16, DType::bf16}) {
    const double unit = test::unit_roundoff(dtype);
    const test::Data data(case_with_options(dtype));
    const test::Results exact = test::oracle(data);
    const test::Results ours = test::run(data, {.kernel = "standard", .threads = 2}).results;
    for (const auto& [name, member] : test::kOutputs) {
      SCOPED_TRACE(std::string(name) + " in " + name_of(dtype));
      const bool narrow = std::string(name) != "LSE" && std::string(name) != "dbias" && std::string(name) != "dsinks";
      const test::Deviation off = test::deviation(exact.*member, ours.*member, narrow ? dtype : DType::fp32);
      EXPECT_EQ(off.mismatch, "");
      EXPECT_LE(off.max, 16 * unit * off.reference_max);
      EXPECT_GE(off.max, unit * off.reference_max / 16);
    }
  }
}

TEST(Standard, FrugalIsChosenAboveHeadDimension256) {
  const Case c = test::parse_case("b2 s70x53 d300/257");
  const test::Data data(c);
  const test::Outcome chosen = test::run(data, {.kernel = "", .threads = 2});
  EXPECT_EQ(chosen.complaint, "");
  EXPECT_EQ(test::plausibility(c, test::oracle(data), chosen.results), "");
  EXPECT_STREQ(choose(validate_query(data.attention(), Pass::forward, {})).kernel->name, "frugal");
  EXPECT_EQ(test::first_difference(chosen.results, test::run(data, {.kernel = "standard", .threads = 2}).results), "");
}

TEST(Standard, RestoresTheThreadCountOfBlas) {
  const blas::BlasLibrary& library = blas::blas_library();
  const int before = library.get_num_threads();
  library.set_num_threads(2);
  test::run(test::Data(Case{}), {.kernel = "standard", .threads = 1});
  EXPECT_EQ(library.get_num_threads(), 2);
  library.set_num_threads(before);
}

class CountingSink : public ProfileSink {
 public:
  CountingSink() { profile_sink = this; }
  ~CountingSink() override { profile_sink = nullptr; }
  void begin_scope(const char* name, ScopeKind kind) override {
    ++(kind == ScopeKind::matmul ? matmuls : others)[name];
    EXPECT_EQ(open++, 0) << name << " begins inside another scope";
  }
  void end_scope() override { --open; }

  std::map<std::string, int> matmuls, others;
  int open = 0;
};

TEST(Standard, ReportsProfilingScopes) {
  constexpr int kHeads = 2 * 4;  // two sequences of four heads
  for (const char* const kernel : {"standard", "frugal"}) {
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(std::string(kernel) + " with " + std::to_string(threads) + " threads");
      const test::Data data(case_with_options(DType::bf16));
      const test::Outcome plain = test::run(data, {.kernel = kernel, .threads = threads});
      const CountingSink scopes;
      const test::Outcome profiled = test::run(data, {.kernel = kernel, .threads = threads});
      EXPECT_EQ(test::first_difference(plain.results, profiled.results), "");
      EXPECT_EQ(scopes.open, 0);
      const int passes = std::string(kernel) == "standard" ? 1 : kHeads;  // an operation over all heads is one scope
      EXPECT_EQ(scopes.matmuls, (std::map<std::string, int>{{"QK^T matmul", 2 * passes},
                                                            {"PV matmul", passes},
                                                            {"dV matmul", passes},
                                                            {"dP matmul", passes},
                                                            {"dQ matmul", passes},
                                                            {"dK matmul", passes}}));
      EXPECT_EQ(scopes.others, (std::map<std::string, int>{{"softmax", 2 * passes},
                                                           {"softmax gradient", passes},
                                                           {"dropout", 2 * passes},
                                                           {"shared gradients", passes}}));
    }
  }
}

// Tests workspace sizes, which do not depend on the machine.
class StandardMemory : public testing::TestWithParam<DType> {
 protected:
  static constexpr std::int64_t kBatch = 3, kHeads = 8, kSeq = 1024, kDim = 64;

  static std::size_t workspace(const char* kernel, Pass pass) {
    const ConstView view = view_bhsd<const void>(nullptr, GetParam(), {kBatch, kHeads, kSeq, kDim});
    return workspace_bytes({.q = view, .k = view, .v = view}, pass, {.kernel = kernel, .threads = 2});
  }
  static double scores() { return static_cast<double>(kBatch * kHeads * kSeq * kSeq) * size_of(GetParam()); }
  static double tensor() { return static_cast<double>(kBatch * kHeads * kSeq * kDim) * size_of(GetParam()); }
};

TEST_P(StandardMemory, EqualsPlainAttention) {
  const auto forward = static_cast<double>(workspace("standard", Pass::forward)) + 4 * tensor();
  const auto backward = static_cast<double>(workspace("standard", Pass::backward)) + 8 * tensor();
  EXPECT_NEAR(forward / (2 * scores() + 4 * tensor()), 1, 0.05);
  EXPECT_NEAR(backward / (4 * scores() + 9 * tensor()), 1, 0.05);
}

TEST_P(StandardMemory, FrugalStoresTheScoresOfOneHead) {
  const double head = static_cast<double>(kSeq * kSeq) * 4;
  EXPECT_NEAR(static_cast<double>(workspace("frugal", Pass::forward)) / head, 1, 0.25);
  EXPECT_NEAR(static_cast<double>(workspace("frugal", Pass::backward)) / (2 * head), 1, 0.25);
}

INSTANTIATE_TEST_SUITE_P(Types, StandardMemory, testing::Values(DType::fp32, DType::fp16, DType::bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Standard, ExplainNamesTheMaterialisedTensors) {
  const ConstView view = view_bhsd<const void>(nullptr, DType::bf16, {2, 4, 1024, 64});
  const Attention attention{.q = view, .k = view, .v = view};
  const auto text_of = [&](Pass pass, const char* kernel) {
    const Problem problem = validate_query(attention, pass, {});
    return choose(problem, kernel).plan.text(problem);
  };
  const std::string gemm(blas::gemm_name());
  EXPECT_EQ(text_of(Pass::forward, "standard"),
            gemm + ", scores and probabilities of all heads materialised: 2 x 16.0 MiB");
  EXPECT_EQ(text_of(Pass::backward, "standard"),
            gemm + ", scores, probabilities and gradients of all heads materialised: 4 x 16.0 MiB");
  EXPECT_EQ(text_of(Pass::forward, "frugal"), gemm + ", scores of one head materialised: 4.0 MiB");
}

TEST(Standard, RejectsSizesBeyond32BitBlas) {
  Problem problem;
  problem.batch = problem.heads_q = problem.max_seqlen_q = 1;
  problem.max_seqlen_k = std::int64_t{1} << 31;
  EXPECT_EQ(plan_standard(problem).refusal, "1 rows and 2147483648 keys: OpenBLAS supports sizes up to 2147483647");
  problem.max_seqlen_q = problem.max_seqlen_k = (std::int64_t{1} << 31) - 1;
  EXPECT_EQ(plan_standard(problem).refusal,
            "scores of 1 heads, 2147483647 rows x 2147483647 keys do not fit in any memory");
}

}  // namespace
}  // namespace strobe
