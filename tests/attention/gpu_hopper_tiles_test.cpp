// Tests every tile shape of hopper's 16-bit forward on a GPU: each rule of its table (kForwardRules), then the small
// shapes, then split keys. Also runs the backward, and compares both passes with float64. The cases of support/grid.h
// are too short and have too few heads for these rules. Each row depends on few keys, because scores are large, so an
// extra or missing tile changes it greatly.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "attention/cuda/sm90/forward/config.h"
#include "core/philox.h"
#include "device/gpu_facts.h"
#include "support/check.h"
#include "support/gpu.h"

namespace strobe::test {
namespace {

using cuda::sm90::forward_config;
using cuda::sm90::ForwardConfig;
using cuda::sm90::ForwardRule;
using cuda::sm90::ForwardShape;
using cuda::sm90::kForwardRules;
using cuda::sm90::small_shape;

constexpr int kOracleThreads = 16;

struct Tiles {
  std::string name;
  Case c;
  ForwardShape shape{};
  bool split = false;
};

std::ostream& operator<<(std::ostream& stream, const Tiles& tiles) { return stream << tiles.name; }

// Returns a case of two row tiles, the second partial, or of one tile if the rule is for long sequences. The caller
// adds as many heads as the rule needs. An even seed makes packed cases set max_seqlen_q and max_seqlen_k.
Case two_tiles(const ForwardRule& rule, DType dtype) {
  Case c = case_from("h2 d{}/{} {} seed=30", rule.dims.d, rule.dims.dv, name_of(dtype));
  // 192-row tiles are chosen only if nearly full. 77 rows limit the oracle's time at long sequences.
  const int rows = rows_of(rule.shape);
  c.sq = rule.least_keys > 4096 ? 77 : rule.shape.consumers == 3 ? 2 * rows - 9 : rows + 9;
  c.sk = std::max<std::int64_t>(rule.least_keys, 3 * rule.shape.keys) + 37;
  c.scale = 4 / std::sqrt(static_cast<float>(c.d));
  return c;
}

std::vector<Case> uneven_cases(const ForwardRule& rule) {
  Case causal = two_tiles(rule, DType::bf16), window = two_tiles(rule, DType::fp16), packed = causal;
  causal.causal = true, causal.alignment = Alignment::bottom_right;
  window.window = {2 * rule.shape.keys + 5, 33}, window.alignment = Alignment::bottom_right;
  packed.lengths = Lengths::packed, packed.batch = 3;
  packed.lengths_q = {packed.sq, 0, std::min<std::int64_t>(77, packed.sq)};
  packed.lengths_k = {packed.sk, 31, rule.shape.keys};
  Case padded = packed;
  padded.lengths = Lengths::both, padded.batch = 2;
  padded.lengths_q.pop_back(), padded.lengths_k.pop_back();
  padded.causal = true, padded.alignment = Alignment::bottom_right;
  return {causal, window, packed, padded};
}

std::vector<Tiles> all_tiles() {
  std::vector<Tiles> all;
  for (const ForwardRule& rule : kForwardRules) {
    const char* const names[] = {"causal", "window", "packed", "padded"};
    const auto cases = rule.uneven ? uneven_cases(rule) : std::vector{two_tiles(rule, DType::bf16)};
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const char* const kind = rule.uneven ? names[i] : "full";
      all.push_back(
          {fmt::format("d{}_{}_{}_{}", rule.dims.d, rule.dims.dv, kind, rule.least_keys), cases[i], rule.shape});
    }
  }
  for (const cuda::sm90::HeadDims dims : cuda::sm90::kForwardDims) {
    for (const int rows : {64, 128}) {
      const ForwardShape shape = small_shape(dims, rows);
      const ForwardRule rule{dims, true, 0, shape};
      const char* const names[] = {"causal", "window", "packed", "padded", "full"};
      auto cases = uneven_cases(rule);
      cases.push_back(two_tiles(rule, DType::bf16));
      for (std::size_t i = 0; i < cases.size(); ++i) {
        all.push_back({fmt::format("small{}_d{}_{}_{}", rows, dims.d, dims.dv, names[i]), cases[i], shape});
      }
    }
  }
  for (const auto& [d, dv] : cuda::sm90::kForwardDims) {
    Case full = case_from("h4/2 s70x4000 d{}/{} fp16 seed=32", d, dv);
    full.scale = 4 / std::sqrt(static_cast<float>(d));
    Case causal = full, packed = full;
    causal.dtype = DType::bf16, causal.sq = 333, causal.causal = true, causal.alignment = Alignment::bottom_right;
    packed.lengths = Lengths::packed, packed.batch = 3;
    packed.lengths_q = {70, 1, 0}, packed.lengths_k = {4000, 31, 500};  // the second sequence ends in the first split
    const std::string dims = fmt::format("split_d{}_{}_", d, dv);
    const ForwardShape shape = small_shape({d, dv}, 64);
    all.push_back({dims + "full", full, shape, true});
    all.push_back({dims + "causal", causal, shape, true});
    all.push_back({dims + "packed", packed, shape, true});
    // Several row tiles per block fill every stage several times; sequences have zero, one, two and more key tiles.
    Case rings = packed;
    rings.heads_q = 100, rings.batch = 6, rings.sq = 8, rings.sk = 1000;
    rings.lengths_q = {8, 8, 8, 8, 8, 7}, rings.lengths_k = {1000, 31, 0, 300, 140, 999};
    all.push_back({fmt::format("rings_d{}_{}", d, dv), rings, shape});
  }
  return all;
}

ForwardConfig config_of(const Case& c) {
  return forward_config({.d = static_cast<int>(c.d),
                         .dv = static_cast<int>(c.dv),
                         .heads = c.batch * c.heads_q,
                         .max_seqlen_q = c.sq,
                         .max_seqlen_k = c.sk,
                         .window = c.window.left < 0 || c.window.right < 0 ? 0 : c.window.left + c.window.right + 1,
                         .multiprocessors = current_gpu().facts.multiprocessors,
                         .uneven = c.uneven()});
}

class GpuHopperTiles : public GpuTest, public testing::WithParamInterface<Tiles> {};

TEST_P(GpuHopperTiles, BothPasses) {
  const Tiles& wanted = GetParam();
  Case c = wanted.c;
  const auto reached = [&] {
    const ForwardConfig config = config_of(c);
    return config.shape == wanted.shape && (config.splits > 1) == wanted.split;
  };
  while (!reached() && c.heads_q < 1024) c.heads_q += 2;
  ASSERT_TRUE(reached());
  const Data data(c);
  GpuLane lane;
  GpuCase on_gpu(data, lane);
  const std::string refusal = on_gpu.refusal("hopper");
  if (needs_hopper(refusal)) GTEST_SKIP() << refusal;
  ASSERT_EQ(refusal, "");
  for (const Verdict& verdict : explain(on_gpu.attention(), Pass::forward, {.device = Device::cuda})) {
    if (verdict.kernel != "hopper") continue;
    const std::string& configuration = verdict.configuration;
    EXPECT_NE(configuration.find(fmt::format("tiles of {} rows x {} keys,", rows_of(wanted.shape), wanted.shape.keys)),
              configuration.npos)
        << configuration;
    EXPECT_EQ(configuration.find("keys split") != configuration.npos, wanted.split) << configuration;
  }
  const Outcome outcome = on_gpu.run({.kernel = "hopper"});
  EXPECT_EQ(outcome.complaint, "");
  expect_near(c, oracle(data, kOracleThreads), outcome.results, 8, "hopper");
}

// Cases with dropout, and the same ones with ALiBi and with a bias.
std::vector<Tiles> option_tiles() {
  std::vector<Tiles> all;
  for (const auto& [d, dv] : cuda::sm90::kAlibiDims) {
    Case full = case_from("h68/2 s201x421 d{}/{} bf16 seed=33", d, dv);
    full.dropout = 0.2f;
    Case causal = full, packed = full, split = full, narrow = full, hardly = full, window = full, capped = full;
    causal.dtype = DType::fp16, causal.causal = true, causal.alignment = Alignment::bottom_right;
    packed.lengths = Lengths::packed, packed.batch = 3;
    packed.lengths_q = {201, 0, 77}, packed.lengths_k = {421, 31, 128};
    split.heads_q = 4, split.sq = 70, split.sk = 4000;
    narrow.d = narrow.dv = d - 24, narrow.dropout = 0.5f;
    hardly.dropout = 0x1p-18f;  // the threshold rounds to 0: no dropout
    window.window = {150, 33}, window.alignment = Alignment::bottom_right;
    capped.softcap = 5, capped.sinks = true;
    Case padded = packed, loud = causal, thin_v = causal;
    padded.lengths = Lengths::both, padded.causal = true, padded.alignment = Alignment::top_left;
    loud.scale = 4 / std::sqrt(static_cast<float>(d));
    thin_v.dv = d - 40;
    const std::pair<const char*, Case> named[] = {{"full", full},     {"causal", causal}, {"packed", packed},
                                                  {"split", split},   {"narrow", narrow}, {"hardly", hardly},
                                                  {"window", window}, {"capped", capped}, {"padded", padded},
                                                  {"loud", loud},     {"thin_v", thin_v}};
    for (const auto& [name, c] : named) {
      all.push_back({fmt::format("drops_d{}_{}", d, name), c});
      Case alibi = c;
      alibi.dropout = 0, alibi.alibi = true;
      if (alibi.alignment == Alignment::unset) alibi.alignment = Alignment::bottom_right;
      all.push_back({fmt::format("alibi_d{}_{}", d, name), alibi});
      if (d > cuda::sm90::kMostBiasDim) continue;
      Case bias = c;
      bias.dropout = 0, bias.bias = true, bias.bias_dtype = c.dtype, bias.dbias = c.lengths == Lengths::none;
      bias.sk = (c.sk + 7) / 8 * 8;  // bias rows of whole 16-byte vectors
      bias.bias_shape = {c.causal, true, !c.sinks};
      bias.bias_values = c.causal ? BiasValues::lowest : c.sinks ? BiasValues::some_minus_inf : BiasValues::normal;
      if (c.lengths == Lengths::packed) bias.bias_values = BiasValues::rows_minus_inf;
      if (bias.lengths != Lengths::none) bias.lengths_k[0] = bias.sk;
      all.push_back({fmt::format("bias_d{}_{}", d, name), bias});
    }
  }
  return all;
}

class GpuHopperOptions : public GpuTest, public testing::WithParamInterface<Tiles> {};

TEST_P(GpuHopperOptions, BothPasses) {
  const Case& c = GetParam().c;
  const Data data(c);
  GpuLane lane;
  GpuCase on_gpu(data, lane);
  for (const Verdict& verdict : explain(on_gpu.attention(), Pass::forward, {.device = Device::cuda})) {
    if (verdict.kernel != "hopper") continue;
    if (needs_hopper(verdict.refusal)) GTEST_SKIP() << verdict.refusal;
    ASSERT_EQ(verdict.refusal, "");
    EXPECT_TRUE(verdict.chosen);
    const bool splits = verdict.configuration.find("keys split") != std::string::npos;
    EXPECT_EQ(splits, GetParam().name.ends_with("_split") && c.dropout != 0) << verdict.configuration;
  }
  const Results reference = oracle(data, kOracleThreads);
  for (const bool deterministic : {true, false}) {  // flash2 runs the backward of softcap, sinks and bias
    const Outcome outcome = on_gpu.run({.kernel = "", .deterministic = deterministic});
    EXPECT_EQ(outcome.complaint, "");
    expect_near(c, reference, outcome.results, 8, deterministic ? "in order" : "in any order");
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuHopperOptions, testing::ValuesIn(option_tiles()),
                         [](const auto& instance) { return instance.param.name; });

// All probabilities are equal. Column e of V is 1, 2 and 4 at keys e, e + D and e + 2 D, and 0 elsewhere. O therefore
// shows which of these keys dropout keeps.
class GpuHopperDropoutMask : public GpuTest, public testing::WithParamInterface<int> {};

TEST_P(GpuHopperDropoutMask, EqualsTheSpecificationBitForBit) {
  const std::int64_t d = GetParam();
  Case c = case_from("b2 h4/2 s201x{} bf16 seed=34", 3 * d);
  c.d = c.dv = d, c.dropout = 0.5f;
  c.lengths = Lengths::packed, c.lengths_q = {201, 130}, c.lengths_k = {3 * d, 3 * d};
  Data data(c);
  const Shape q = data.shape_q(), v = data.shape_v();
  for (std::int64_t h = 0; h < c.heads_q; ++h) {
    for (std::int64_t i = 0; i < q[2]; ++i) {
      for (std::int64_t e = 0; e < d; ++e) data.q.set(0, h, i, e, 0);
    }
  }
  for (std::int64_t h = 0; h < c.heads_kv; ++h) {
    for (std::int64_t row = 0; row < v[2]; ++row) {
      const std::int64_t j = row % (3 * d);
      for (std::int64_t e = 0; e < d; ++e) data.v.set(0, h, row, e, e == j % d ? static_cast<float>(1 << j / d) : 0);
    }
  }
  data.remember();
  GpuLane lane;
  GpuCase on_gpu(data, lane);
  const std::string refusal = on_gpu.refusal("hopper", Pass::forward);
  if (needs_hopper(refusal)) GTEST_SKIP() << refusal;
  ASSERT_EQ(refusal, "");
  const std::vector<double> o = on_gpu.run({.kernel = "hopper", .forward_only = true}).results.o;
  const std::uint64_t seed = data.attention().dropout.seed;
  const std::uint32_t threshold = dropout_threshold(c.dropout);
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t h = 0; h < c.heads_q; ++h) {
      for (std::int64_t i = 0; i < c.seqlen_q(b); ++i) {
        for (std::int64_t e = 0; e < d; ++e) {
          long kept = 0;
          for (int t = 0; t < 3; ++t) kept |= long{dropout_keeps(seed, threshold, b, h, i, e + t * d)} << t;
          const std::int64_t at = ((h * q[2] + data.begin_q(b) + i) * d) + e;
          const double sum = o[static_cast<std::size_t>(at)] * (1 - c.dropout) * static_cast<double>(3 * d);
          ASSERT_EQ(std::lround(sum), kept) << "b " << b << " head " << h << " row " << i << " key " << e;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuHopperDropoutMask, testing::Values(64, 128, 256));

INSTANTIATE_TEST_SUITE_P(All, GpuHopperTiles, testing::ValuesIn(all_tiles()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace strobe::test
