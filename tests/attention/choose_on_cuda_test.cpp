// Tests kernel selection for simulated GPUs: a problem contains every GPU property that the selection reads, so no GPU
// is needed. Runs in every build with CUDA.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>

#include "attention/kernel.h"
#include "attention/small_problem.h"
#include "attention/validate.h"
#include "device/device_info.h"
#include "strobe/error.h"

namespace strobe {
namespace {

// Problems with and without score options use separate kernels and tiles.
enum class Scores { plain, options };

// Returns a problem with GQA and a causal mask, without data.
Problem problem_of(std::int64_t d, DType dtype, Pass pass, const GpuFacts& gpu, Scores scores = Scores::plain) {
  Attention attention;
  attention.q = view_bhsd<const void>(nullptr, dtype, {2, 8, 1000, d});
  attention.k = view_bhsd<const void>(nullptr, dtype, {2, 2, 1000, d});
  attention.v = view_bhsd<const void>(nullptr, dtype, {2, 2, 1000, d});
  attention.causal = true;
  if (scores == Scores::options) attention.softcap = 5;
  Problem problem = validate_query(attention, pass, {});
  problem.device = Device::cuda;
  problem.gpu = gpu;
  return problem;
}

class ChooseOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!gpu_inventory().compiled_in) GTEST_SKIP() << gpu_inventory().reason;
  }
};

// Ada and consumer Blackwell have 99 KB of shared memory per block, Ampere's A100 163, Hopper 227.
constexpr GpuFacts kHopper{90, 227 << 10, 132};
constexpr GpuFacts kGpus[] = {{89, 99 << 10, 128}, {120, 99 << 10, 170}, {80, 163 << 10, 108}, kHopper};

// The portable kernel, flash2, accepts every type and head dimensions up to 256 on these GPUs.
TEST_F(ChooseOnCuda, HeadDimensionsUpTo256HaveAKernel) {
  for (const GpuFacts& gpu_facts : kGpus) {
    for (const DType dtype : {DType::fp32, DType::fp16, DType::bf16}) {
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        for (std::int64_t d = 1; d <= 256; ++d) {
          for (const Scores scores : {Scores::plain, Scores::options}) {
            const Problem problem = problem_of(d, dtype, pass, gpu_facts, scores);
            const std::string where =
                fmt::format("{} D {} on a GPU of compute capability {}.{} with {} KB", name_of(dtype), d,
                            gpu_facts.compute_capability / 10, gpu_facts.compute_capability % 10,
                            gpu_facts.shared_bytes_per_block >> 10);
            const Choice portable = choose(problem, "flash2"), chosen = choose(problem);
            const std::string name = chosen.kernel->name;
            ASSERT_FALSE(portable.plan.text(problem).empty()) << where;
            ASSERT_TRUE(chosen.kernel == portable.kernel || name == "hopper") << where << ": " << name;
            ASSERT_FALSE(chosen.plan.text(problem).empty()) << where;
            ASSERT_GE(chosen.plan.workspace_bytes, portable.plan.workspace_bytes)
                << where << ": misaligned outputs need the portable kernel";
          }
        }
      }
    }
  }
}

std::string hopper_refusal(const Problem& problem) {
  for (const Kernel& kernel : kernels()) {
    if (kernel.serves(problem) && kernel.name == std::string("hopper")) return kernel.plan(problem).refusal;
  }
  return "not in the list";
}

// The Hopper kernels need rows that are multiples of 16 bytes and Hopper's full shared memory.
TEST_F(ChooseOnCuda, HopperIsChosenForFp16AndBf16UnlessItRefuses) {
  const auto& refusal = hopper_refusal;
  if (refusal(problem_of(128, DType::bf16, Pass::forward, kHopper)).find("sm_90a") != std::string::npos) {
    GTEST_SKIP() << "this build has no machine code for sm_90a";
  }
  for (const DType dtype : {DType::fp16, DType::bf16}) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (std::int64_t d = 8; d <= 256; d += 8) {
        EXPECT_EQ(refusal(problem_of(d, dtype, pass, kHopper)), "") << d;
        EXPECT_STREQ(choose(problem_of(d, dtype, pass, kHopper)).kernel->name, "hopper") << d;
      }
    }
  }
  const auto expect = [&](const Problem& problem, const char* words) {
    EXPECT_NE(refusal(problem).find(words), std::string::npos) << refusal(problem);
    EXPECT_STREQ(choose(problem).kernel->name, "flash2");
  };
  expect(problem_of(20, DType::bf16, Pass::forward, kHopper), "multiples of 16 bytes");
  expect(problem_of(128, DType::bf16, Pass::forward, {90, 99 << 10, 132}), "shared memory");
  expect(problem_of(128, DType::bf16, Pass::forward, {100, 227 << 10, 148}), "compute capability 9.0");
  Problem expanded = problem_of(128, DType::bf16, Pass::forward, kHopper);
  expanded.k.stride[1] = 0;
  expect(expanded, "expanded");
  Problem flipped = problem_of(128, DType::bf16, Pass::forward, kHopper);
  flipped.v.stride[2] = -flipped.v.stride[2];
  expect(flipped, "v has a stride of -");
  Problem keyless = problem_of(128, DType::bf16, Pass::forward, kHopper);  // the caller sets max_seqlen_k
  keyless.k.shape[2] = keyless.v.shape[2] = 0;
  expect(keyless, "k has no elements");
  Problem many = problem_of(64, DType::bf16, Pass::forward, kHopper);
  many.packed = true;
  many.total_q = many.q.shape[2] = std::int64_t{1} << 31;
  expect(many, "fewer than 2^31");
  Problem ragged = problem_of(64, DType::bf16, Pass::backward, kHopper);
  ragged.packed = true;
  ragged.batch = 1 << 20, ragged.max_seqlen_q = 100, ragged.max_seqlen_k = 1 << 20;
  expect(ragged, "it supports fewer than 2^31");
  Problem capped = problem_of(128, DType::bf16, Pass::forward, kHopper);
  capped.softcap = 5;
  EXPECT_EQ(refusal(capped), "");
  Problem few = problem_of(128, DType::bf16, Pass::forward, kHopper);
  few.max_seqlen_q = few.total_q = 5;
  expect(few, "20 rows per group of query heads; flash2 is faster");
}

// Up to 16 rows per group of query heads hopper runs its decode kernel, unless that refuses.
TEST_F(ChooseOnCuda, HopperDecodes) {
  static const std::int32_t first[2] = {};
  static const float slopes[8] = {};
  const auto decode = [](std::int64_t d, std::int64_t rows) {
    Problem problem = problem_of(d, DType::bf16, Pass::forward, kHopper);
    problem.max_seqlen_q = problem.total_q = rows;
    return problem;
  };
  if (hopper_refusal(decode(128, 1)).find("sm_90a") != std::string::npos) {
    GTEST_SKIP() << "this build has no machine code for sm_90a";
  }
  for (const std::int64_t d : {8, 64, 72, 128}) {
    for (const std::int64_t rows : {1, 4}) {
      Problem problem = decode(d, rows);
      problem.first_keys = view_index(first, 2);
      const Choice choice = choose(problem);
      EXPECT_STREQ(choice.kernel->name, "hopper") << d;
      const std::string words = fmt::format("decode, head dimension {},", d <= 64 ? 64 : 128);
      EXPECT_NE(choice.plan.text(problem).find(words), std::string::npos) << choice.plan.text(problem);
    }
  }
  const auto expect = [&](const Problem& problem, const char* words) {
    EXPECT_NE(hopper_refusal(problem).find(words), std::string::npos) << hopper_refusal(problem);
    EXPECT_STREQ(choose(problem).kernel->name, "flash2");
  };
  expect(decode(136, 1), "it takes up to 128");
  Problem capped = decode(128, 1), sloped = decode(128, 1), short_keys = decode(128, 1);
  capped.softcap = 5;
  expect(capped, "a softcap with few rows");
  sloped.alibi_slopes = slopes;
  expect(sloped, "ALiBi slopes with few rows");
  short_keys.max_seqlen_k = 32;
  expect(short_keys, "32 keys; it needs more than 32");
}

// Options that flash2 computes and hopper refuses, and those that only CPU kernels have.
TEST_F(ChooseOnCuda, LateOptions) {
  static const float values[8] = {};
  static const std::int32_t first[2] = {};
  const auto with = [](Pass pass, auto&& set) {
    Problem problem = problem_of(64, DType::bf16, pass, kHopper);
    set(problem);
    return problem;
  };
  const Problem plain = problem_of(64, DType::bf16, Pass::forward, kHopper);
  const bool has_hopper = hopper_refusal(plain).find("sm_90a") == std::string::npos;
  const auto expect_flash2 = [&](const Problem& problem, const char* words, const char* kind) {
    const Choice choice = choose(problem);
    EXPECT_STREQ(choice.kernel->name, "flash2") << words;
    EXPECT_NE(choice.plan.text(problem).find(kind), std::string::npos) << choice.plan.text(problem);
    if (!has_hopper) return;
    EXPECT_NE(hopper_refusal(problem).find(words), std::string::npos) << hopper_refusal(problem);
  };
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    expect_flash2(with(pass, [](Problem& p) { p.has_mask = true; }), "a boolean mask", "general,");
    expect_flash2(with(pass, [](Problem& p) { p.first_keys = view_index(first, 2); }), "first_keys", "mma.sync, ");
    expect_flash2(with(pass, [](Problem& p) { p.alibi_slopes = values, p.alibi_batch_stride = 4; }), "per sequence",
                  "options,");
    for (const auto& [problem, words] :
         {std::pair(with(pass, [](Problem& p) { p.lse_contiguous = false; }), "must be contiguous"),
          std::pair(with(pass, [](Problem& p) { p.batch_invariant = true; }), "batch_invariant works only on the CPU"),
          std::pair(
              with(pass, [](Problem& p) { p.dropout.seed_data = reinterpret_cast<const std::uint64_t*>(values); }),
              "seed_data works only on the CPU")}) {
      for (const Kernel& kernel : kernels()) {
        if (!kernel.serves(problem)) continue;
        EXPECT_NE(kernel.plan(problem).refusal.find(words), std::string::npos) << kernel.plan(problem).refusal;
      }
    }
  }
  const auto with_d_lse = [](Problem& p) { p.d_lse = values, p.d_lse_stride = p.lse_stride = {8000, 1000, 1}; };
  const Problem contiguous = with(Pass::backward, with_d_lse);
  EXPECT_STREQ(choose(contiguous).kernel->name, has_hopper ? "hopper" : "flash2");
  Problem strided = contiguous;
  strided.d_lse_stride = {8000, 1, 8};
  expect_flash2(strided, "a gradient of LSE with strides", "plain,");
}

TEST_F(ChooseOnCuda, HopperSupportsDropout) {
  const auto dropping = [](std::int64_t d, DType dtype, Pass pass, float p) {
    Problem problem = problem_of(d, dtype, pass, kHopper);
    problem.dropout.p = p;
    return problem;
  };
  const Problem plain = problem_of(64, DType::bf16, Pass::forward, kHopper);
  if (hopper_refusal(plain).find("sm_90a") != std::string::npos) GTEST_SKIP() << hopper_refusal(plain);
  for (std::int64_t d = 8; d <= 256; d += 8) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      EXPECT_STREQ(choose(dropping(d, DType::fp16, pass, 0.2f)).kernel->name, "hopper") << d;
    }
  }
  const auto expect = [&](const Problem& problem, const char* words) {
    EXPECT_NE(hopper_refusal(problem).find(words), std::string::npos) << hopper_refusal(problem);
    EXPECT_STREQ(choose(problem).kernel->name, "flash2");
  };
  expect(dropping(64, DType::fp32, Pass::forward, 0.2f), "dropout in fp32");
  expect(dropping(64, DType::fp32, Pass::backward, 0.2f), "dropout in the backward");
  // dropout_threshold() rounds p = 2^-18 to 0, so the plan equals the one without dropout.
  const Problem hardly = dropping(64, DType::bf16, Pass::forward, 0x1p-18f);
  EXPECT_EQ(choose(hardly).plan.text(hardly), choose(plain).plan.text(plain));
  const Problem least = dropping(64, DType::bf16, Pass::forward, 0x1p-17f);
  EXPECT_NE(choose(least).plan.text(least), choose(plain).plan.text(plain));
}

TEST_F(ChooseOnCuda, HopperSupportsAlibi) {
  const float slopes[8] = {};
  const auto with_alibi = [&](std::int64_t d, DType dtype, Pass pass) {
    Problem problem = problem_of(d, dtype, pass, kHopper);
    problem.alibi_slopes = slopes;
    return problem;
  };
  const Problem plain = problem_of(64, DType::bf16, Pass::forward, kHopper);
  if (hopper_refusal(plain).find("sm_90a") != std::string::npos) GTEST_SKIP() << hopper_refusal(plain);
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    for (std::int64_t d = 8; d <= 256; d += 8) {
      EXPECT_STREQ(choose(with_alibi(d, DType::fp16, pass)).kernel->name, "hopper") << d;
    }
    Problem dropping = with_alibi(64, DType::bf16, pass);
    dropping.dropout.p = 0.2f;
    EXPECT_NE(hopper_refusal(dropping).find("dropout with ALiBi"), std::string::npos) << hopper_refusal(dropping);
    EXPECT_STREQ(choose(dropping).kernel->name, "flash2");
    EXPECT_NE(hopper_refusal(with_alibi(64, DType::fp32, pass)).find("ALiBi slopes"), std::string::npos);
  }
}

TEST_F(ChooseOnCuda, HopperSupportsASoftcapAndSinks) {
  static const float sinks[8] = {};
  static float dsinks[8] = {};
  const auto capped = [](std::int64_t d, Pass pass) {
    Problem problem = problem_of(d, DType::bf16, pass, kHopper);
    problem.softcap = 5;
    problem.sinks = sinks;
    if (pass == Pass::backward) problem.dsinks = dsinks, problem.wants_dsinks = true;
    return problem;
  };
  const Problem plain = problem_of(64, DType::bf16, Pass::forward, kHopper);
  if (hopper_refusal(plain).find("sm_90a") != std::string::npos) GTEST_SKIP() << hopper_refusal(plain);
  for (std::int64_t d = 8; d <= 256; d += 8) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      EXPECT_STREQ(choose(capped(d, pass)).kernel->name, "hopper") << d;
    }
  }
  const auto expect = [&](const Problem& problem, const char* words) {
    EXPECT_NE(hopper_refusal(problem).find(words), std::string::npos) << hopper_refusal(problem);
    EXPECT_STREQ(choose(problem).kernel->name, "flash2");
  };
  Problem dropping = capped(64, Pass::backward), sloped = dropping, biased = dropping;
  dropping.dropout.p = 0.2f;
  expect(dropping, "a softcap with dropout");
  sloped.alibi_slopes = sinks;
  expect(sloped, "a softcap with ALiBi");
  biased.has_bias = true;
  biased.bias = view_bhsd<const void>(nullptr, DType::bf16, {2, 8, 1000, 1000});
  expect(biased, "a softcap with a bias");
  biased.pass = Pass::forward;
  EXPECT_STREQ(choose(biased).kernel->name, "hopper");
}

TEST_F(ChooseOnCuda, HopperSupportsABiasUpToHeadDimension128) {
  const auto with_bias = [](std::int64_t d, DType bias_dtype, Pass pass, std::int64_t row) {
    Problem problem = problem_of(d, DType::bf16, pass, kHopper);
    problem.has_bias = true;
    problem.bias = view_bhsd<const void>(nullptr, bias_dtype, {2, 8, 1000, row});
    problem.bias.shape[3] = 1000;
    if (pass == Pass::backward) {
      problem.dbias = view_bhsd<void>(nullptr, DType::fp32, {2, 8, 1000, 1000});
      problem.wants_dbias = true;
    }
    return problem;
  };
  const Problem plain = problem_of(64, DType::bf16, Pass::forward, kHopper);
  if (hopper_refusal(plain).find("sm_90a") != std::string::npos) GTEST_SKIP() << hopper_refusal(plain);
  for (std::int64_t d = 8; d <= 128; d += 8) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      EXPECT_STREQ(choose(with_bias(d, DType::bf16, pass, 1000)).kernel->name, "hopper") << d;
    }
  }
  const auto expect = [&](const Problem& problem, const char* words) {
    EXPECT_NE(hopper_refusal(problem).find(words), std::string::npos) << hopper_refusal(problem);
    EXPECT_STREQ(choose(problem).kernel->name, "flash2");
  };
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    expect(with_bias(136, DType::bf16, pass, 1000), "a bias with head dimensions above 128");
    expect(with_bias(64, DType::fp32, pass, 1000), "a bias in fp32");
    expect(with_bias(64, DType::bf16, pass, 1004), "16-byte aligned");
  }
  Problem shared = with_bias(64, DType::bf16, Pass::backward, 1000);
  shared.bias.stride[0] = shared.dbias.stride[0] = 0;
  expect(shared, "a bias that sequences or heads share, with `deterministic`");
  shared.deterministic = false;
  EXPECT_STREQ(choose(shared).kernel->name, "hopper");
  Problem flipped = shared;
  flipped.bias.stride[1] = -flipped.bias.stride[1];
  expect(flipped, "a bias with negative strides");
  shared.bias.stride[2] = 0;
  expect(shared, "a bias that all rows share");
  const float slopes[8] = {};
  Problem both = with_bias(64, DType::bf16, Pass::forward, 1000);
  both.alibi_slopes = slopes;
  expect(both, "a bias with ALiBi");
  both.alibi_slopes = nullptr, both.dropout.p = 0.2f;
  expect(both, "a bias with dropout");
}

TEST_F(ChooseOnCuda, HopperTilesCanBeForced) {
  const Problem plain = problem_of(64, DType::bf16, Pass::forward, kHopper);
  if (hopper_refusal(plain).find("sm_90a") != std::string::npos) GTEST_SKIP() << hopper_refusal(plain);
  const auto configuration_with = [&](const char* tiles) {
    ::setenv("STROBE_HOPPER_TILES", tiles, 1);
    std::string text;
    try {
      text = choose(plain).plan.text(plain);
    } catch (const Error& error) {
      text = error.what();
    }
    ::unsetenv("STROBE_HOPPER_TILES");
    return text;
  };
  const std::pair<const char*, const char*> cases[] = {{"table", "tiles of 256 rows x 64 keys"},
                                                       {"128", "tiles of 128 rows x 128 keys"},
                                                       {"64", "2 warpgroups that alternate key tiles"},
                                                       {"64x4", "keys split 4 ways"},
                                                       {"64x128", "keys split 7 ways"}};
  for (const auto& [tiles, words] : cases)
    EXPECT_NE(configuration_with(tiles).find(words), std::string::npos) << configuration_with(tiles);
  EXPECT_EQ(configuration_with(""), choose(plain).plan.text(plain));
  for (const char* tiles : {"0", "64x", "64x1", "64x129", "64x99999999999", "128x2", "192", "64x4 ", "-64", "tables"}) {
    EXPECT_EQ(configuration_with(tiles),
              fmt::format("cuda: STROBE_HOPPER_TILES is '{}'; valid: table, 128, 64, and 64x2 to 64x128", tiles));
  }
}

TEST_F(ChooseOnCuda, HopperBackwardUsesTallTilesIfManyRowsSeeAKey) {
  Problem causal = problem_of(128, DType::bf16, Pass::backward, kHopper);
  causal.max_seqlen_q = causal.max_seqlen_k = 8192;
  if (hopper_refusal(causal).find("sm_90a") != std::string::npos) GTEST_SKIP() << hopper_refusal(causal);
  const auto expect = [](const Problem& problem, int rows) {
    const std::string text = choose(problem, "hopper").plan.text(problem);
    EXPECT_NE(text.find(fmt::format("tiles of {} rows x 128 keys", rows)), std::string::npos) << text;
  };
  const auto with = [&](bool is_causal, Window window) {
    Problem problem = causal;
    problem.causal = is_causal, problem.window = window;
    return problem;
  };
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  expect(causal, 80);
  expect(with(false, {}), 80);
  expect(with(false, {-1, 10}), 80);
  expect(with(false, {10, -1}), 80);
  expect(with(false, {kLargest, kLargest}), 80);
  expect(with(false, {4000, 95}), 80);
  expect(with(false, {4000, 94}), 64);
  expect(with(true, {4095, -1}), 80);
  expect(with(true, {4094, kLargest}), 64);
  Problem dropping = causal, shorter = causal;
  dropping.dropout.p = 0.2f;
  expect(dropping, 64);
  shorter.max_seqlen_q = 4095;
  expect(shorter, 64);
}

// Hopper's fp32 forward supports head dimensions up to 128; up to 32 the chooser prefers flash2.
TEST_F(ChooseOnCuda, HopperSupportsFp32) {
  const Problem plain = problem_of(64, DType::fp32, Pass::forward, kHopper);
  if (hopper_refusal(plain).find("sm_90a") != std::string::npos) GTEST_SKIP() << hopper_refusal(plain);
  for (std::int64_t d = 4; d <= 128; d += 4) {
    const Problem problem = problem_of(d, DType::fp32, Pass::forward, kHopper);
    EXPECT_EQ(hopper_refusal(problem), "") << d;
    EXPECT_STREQ(choose(problem, "hopper").kernel->name, "hopper") << d;
    EXPECT_STREQ(choose(problem).kernel->name, d > 32 ? "hopper" : "flash2") << d;
    const std::string text = choose(problem, "hopper").plan.text(problem);
    EXPECT_NE(text.find("two scaled fp16 values"), std::string::npos) << text;
    EXPECT_EQ(text.find("by name only") == std::string::npos, d > 32) << text;
  }
  const auto expect = [&](const Problem& problem, const char* words) {
    EXPECT_NE(hopper_refusal(problem).find(words), std::string::npos) << hopper_refusal(problem);
    EXPECT_STREQ(choose(problem).kernel->name, "flash2");
  };
  expect(problem_of(132, DType::fp32, Pass::backward, kHopper), "up to 128 in fp32");
  expect(problem_of(132, DType::fp32, Pass::forward, kHopper), "up to 128 in fp32");
  expect(problem_of(30, DType::fp32, Pass::forward, kHopper), "multiples of 16 bytes");
  expect(problem_of(64, DType::fp32, Pass::forward, kHopper, Scores::options), "a softcap in fp32");
  Problem rounded = plain;
  rounded.tf32 = true;
  expect(rounded, "tf32");
  Problem expanded = plain;  // stride 0 along the heads is refused only in fp16 and bf16, where TMA reads K
  expanded.k.stride[1] = 0;
  EXPECT_EQ(hopper_refusal(expanded), "");
}

TEST_F(ChooseOnCuda, HopperIsChosenForFp32BackwardWhereItWasMeasuredFaster) {
  const Problem plain = problem_of(64, DType::fp32, Pass::backward, kHopper);
  if (hopper_refusal(plain).find("sm_90a") != std::string::npos) GTEST_SKIP() << hopper_refusal(plain);
  for (std::int64_t d = 4; d <= 128; d += 4) {
    const Problem problem = problem_of(d, DType::fp32, Pass::backward, kHopper);
    EXPECT_EQ(hopper_refusal(problem), "") << d;
    EXPECT_STREQ(choose(problem).kernel->name, d > 24 ? "hopper" : "flash2") << d;
    Problem shorter = problem;
    shorter.max_seqlen_k = 511;
    EXPECT_STREQ(choose(shorter).kernel->name, d > 32 ? "hopper" : "flash2") << d;
    const Choice hopper = choose(problem, "hopper");
    EXPECT_STREQ(hopper.kernel->name, "hopper") << d;
    const std::string text = hopper.plan.text(problem);
    EXPECT_EQ(text.find("by name only") != std::string::npos, choose(problem).kernel != hopper.kernel) << text;
    EXPECT_GE(hopper.plan.workspace_bytes, choose(problem, "flash2").plan.workspace_bytes) << d;
  }
}

TEST_F(ChooseOnCuda, OlderGpusAreRejectedWithTheReason) {
  const Problem problem = problem_of(64, DType::fp16, Pass::forward, {75, 64 << 10, 40});
  try {
    choose(problem);
    FAIL() << "a kernel for compute capability 7.5";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("compute capability 7.5"), std::string::npos) << error.what();
  }
}

// Let P be the bytes of the scores and X those of Q. `standard` needs a workspace of 2 P forward and 4 P + X backward,
// plus cuBLAS memory; X is for a copy of dO. The caller's Q, K, V, O, dO, dQ, dK and dV are not part of the workspace.
TEST_F(ChooseOnCuda, StandardNeedsTheMemoryOfPlainAttention) {
  constexpr std::size_t kCublas = std::size_t{32} << 20;
  const auto bytes = [](Pass pass, const char* kernel) {
    const ConstView view = view_bhsd<const void>(nullptr, DType::fp16, {16, 32, 1024, 64});
    Problem problem = validate_query({.q = view, .k = view, .v = view}, pass, {});
    problem.device = Device::cuda;
    problem.gpu = kHopper;
    return choose(problem, kernel).plan.workspace_bytes;
  };
  constexpr std::size_t kScores = std::size_t{1} << 30, kTensor = std::size_t{64} << 20;
  EXPECT_EQ(bytes(Pass::forward, "standard"), 2 * kScores + kCublas);
  EXPECT_EQ(bytes(Pass::backward, "standard"), 4 * kScores + kTensor + kCublas);
  constexpr std::size_t kFew = std::size_t{32} << 20;  // bytes of the scores of 16 of the 512 heads
  EXPECT_EQ(bytes(Pass::forward, "frugal"), kFew + kTensor / 32 + kCublas);
  EXPECT_EQ(bytes(Pass::backward, "frugal"), 2 * kFew + 2 * kTensor / 32 + kCublas);
}

TEST_F(ChooseOnCuda, FrugalIsChosenAboveHeadDimension256) {
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    EXPECT_STREQ(choose(problem_of(264, DType::fp16, pass, kHopper)).kernel->name, "frugal");
  }
}

}  // namespace
}  // namespace strobe
