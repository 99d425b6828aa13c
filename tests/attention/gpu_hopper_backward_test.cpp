// Tests how the Hopper backward divides its work between warpgroups and blocks, against float64 and bit by bit. Up to
// head dimension 128, two warpgroups alternate row tiles if there are few heads. With many heads, or with ordered
// accumulation of dQ, each warpgroup owns part of the keys. Above 128, blocks work in clusters of two.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "attention/cuda/sm90/backward/config.h"
#include "attention/kernel.h"
#include "core/philox.h"
#include "device/gpu_facts.h"
#include "support/check.h"
#include "support/compare.h"
#include "support/gpu.h"
#include "support/gpu_passes.h"
#include "support/selection.h"

namespace strobe::test {
namespace {

using cuda::sm90::backward_config;
using cuda::sm90::BackwardShape;
using cuda::sm90::Share;

// The shape without options. The window of a case must be unbounded on one side if it has 4096 or more rows.
BackwardShape shape_of(const Case& c, bool deterministic = false) {
  return backward_config({.d = static_cast<int>(std::max(c.d, c.dv)),
                          .heads = c.batch * c.heads_kv,
                          .max_seqlen_k = c.sk,
                          .multiprocessors = current_gpu().facts.multiprocessors,
                          .uneven = c.uneven(),
                          .deterministic = deterministic,
                          .rows_per_key = c.causal || c.window.left >= 0 ? c.sq / 2 + 1 : c.sq})
      .shape;
}

Share share_of(const Case& c) { return shape_of(c).share; }

const char* words_of(Share share) {
  return share == Share::tiles ? "alternate row tiles" : share == Share::keys ? "split keys" : "clusters of two";
}

// Adds heads to a case until the backward selects this division of work.
Case with_share(Case c, Share share) {
  const std::int64_t group = c.heads_q;
  while (share == Share::keys && share_of(c) != Share::keys) ++c.heads_kv;
  c.heads_q = group * c.heads_kv;
  return c;
}

// Returns cases by name. Most have several row tiles and key tiles, of which the last are partial. They cover more
// tiles than stages, odd numbers of tiles, and a single tile, which leaves one warpgroup without work.
std::vector<std::pair<std::string, Case>> named_cases(std::int64_t d) {
  Case full = case_from("h1 s600x300 d{} bf16 seed=41", d);
  full.scale = 0.3f;
  Case causal = full, tall = full, window = full, behind = full, packed = full, padded = full, narrow = full;
  full.heads_q = tall.heads_q = 2, padded.heads_q = 3;
  causal.dtype = DType::fp16, causal.sq = 700, causal.sk = 720;
  causal.causal = true, causal.alignment = Alignment::bottom_right;
  tall.causal = true, tall.alignment = Alignment::bottom_right;  // some rows have no keys
  window.sq = window.sk = 650, window.window = {70, 33};
  behind.dtype = DType::fp16, behind.sq = behind.sk = 420, behind.window = {50, -1};
  packed.batch = 4, packed.lengths = Lengths::packed, packed.causal = true, packed.alignment = Alignment::bottom_right;
  packed.sq = 700, packed.lengths_q = {700, 0, 3, 77}, packed.lengths_k = {300, 31, 40, 128};
  padded.batch = 4, padded.lengths = Lengths::both;
  padded.lengths_q = {599, 64, 0, 20}, padded.lengths_k = {129, 300, 70, 0};
  narrow.d = d - 24, narrow.dv = d / 2, narrow.sq = 130;
  Case strided = narrow;
  strided.layout_q = strided.layout_k = strided.layout_v = strided.layout_out = Layout::bshd;
  return {{"full", full},     {"causal", causal}, {"tall", tall},     {"window", window},  {"behind", behind},
          {"packed", packed}, {"padded", padded}, {"narrow", narrow}, {"strided", strided}};
}

// Cases with tall row tiles, by name: a long sequence, and key tiles of at least two per multiprocessor in any order.
// The last row tile is partial, and packed sequences begin within a row tile.
std::vector<std::pair<std::string, Case>> tall_cases() {
  const int multiprocessors = current_gpu().facts.multiprocessors;
  Case full = case_from("s4100x129 d128 bf16 seed=45");
  full.scale = 0.3f;
  full.heads_q = full.heads_kv = multiprocessors / 3 + 1;  // 129 keys count as three tiles of 64
  Case packed = full;
  packed.dtype = DType::fp16, packed.batch = 8, packed.lengths = Lengths::packed, packed.sq = 8200, packed.sk = 700;
  packed.lengths_q = {77, 8200, 0, 3, 100, 1, 5, 90}, packed.lengths_k = {40, 140, 31, 3, 150, 1, 700, 128};
  packed.heads_kv = multiprocessors / 44 + 1, packed.heads_q = 2 * packed.heads_kv;  // 8 * 11 tiles per head
  packed.causal = true, packed.alignment = Alignment::bottom_right;
  Case padded = full;
  padded.batch = 4, padded.lengths = Lengths::both, padded.sk = 2100;
  padded.heads_q = padded.heads_kv = multiprocessors / 66 + 1;  // 4 * 33 tiles per head
  padded.lengths_q = {4099, 64, 0, 20}, padded.lengths_k = {129, 2100, 70, 0};
  padded.layout_q = padded.layout_k = padded.layout_v = padded.layout_out = Layout::bshd;
  Case narrow = packed;
  narrow.dtype = DType::bf16, narrow.d = 104, narrow.dv = 64, narrow.causal = false, narrow.window = {50, -1};
  return {{"full", full}, {"packed", packed}, {"padded", padded}, {"narrow", narrow}};
}

class GpuHopperBackward : public GpuTest {
 protected:
  // Calls visit() for each case and each division of work, then for the cases with tall row tiles. Empty `names`: all
  // cases. Skips the test if the GPU or the build does not support hopper.
  template <class Visit>
  void for_all(const std::vector<std::string>& names, Visit&& visit) {
    struct Visited {
      std::string name, label;
      Case c;
    };
    std::vector<Visited> all;
    for (const std::int64_t d : {64, 128, 256}) {
      for (const Share share : {Share::tiles, Share::keys, Share::columns}) {
        if ((share == Share::columns) != (d > 128)) continue;
        for (const auto& [name, base] : named_cases(d)) {
          all.push_back({name, fmt::format("d {}, {}, {}", d, words_of(share), name), with_share(base, share)});
          ASSERT_EQ(share_of(all.back().c), share) << describe(all.back().c);
        }
      }
    }
    for (const auto& [name, c] : tall_cases()) {
      for (const bool deterministic : {true, false}) {
        ASSERT_EQ(shape_of(c, deterministic), (BackwardShape{80, 128, Share::keys})) << describe(c);
      }
      all.push_back({name, "tall row tiles, " + name, c});
    }
    GpuLane lane;
    for (const auto& [name, label, c] : all) {
      if (!names.empty() && std::find(names.begin(), names.end(), name) == names.end()) continue;
      const Data data(c);
      GpuCase on_gpu(data, lane);
      const std::string refusal = on_gpu.refusal("hopper");
      if (needs_hopper(refusal)) GTEST_SKIP() << refusal;
      ASSERT_EQ(refusal, "") << describe(c);
      visit(c, data, on_gpu, label);
    }
  }
};

TEST_F(GpuHopperBackward, EveryFeature) {
  for_all({}, [](const Case& c, const Data& data, GpuCase& on_gpu, const std::string& name) {
    const Results reference = oracle(data, 16);
    for (const bool deterministic : {true, false}) {
      const Outcome outcome = on_gpu.run({.kernel = "hopper", .deterministic = deterministic});
      EXPECT_EQ(outcome.complaint, "") << name;
      expect_near(c, reference, outcome.results, 8, name + (deterministic ? ", in order" : ", in any order"));
    }
  });
}

TEST_F(GpuHopperBackward, ExplainReportsTheTiles) {
  for_all({"full"}, [](const Case& c, const Data&, GpuCase& on_gpu, const std::string& name) {
    for (const bool deterministic : {true, false}) {
      const Execution execution{.device = Device::cuda, .deterministic = deterministic};
      for (const Verdict& verdict : explain(on_gpu.attention(), Pass::backward, execution)) {
        if (verdict.kernel != "hopper") continue;
        const BackwardShape shape = shape_of(c, deterministic);
        const std::string words = fmt::format(
            "tiles of {} rows x {}", shape.rows,
            shape.share == Share::columns ? "128 keys, 2 warpgroups per block, clusters of 2 blocks, 2 stages"
            : shape.share == Share::tiles ? "64 keys, 2 warpgroups on alternate tiles, 4 stages"
                                          : "128 keys, 2 warpgroups, 2 stages");
        EXPECT_NE(verdict.configuration.find(words), std::string::npos) << name << ": " << verdict.configuration;
      }
    }
  });
}

TEST_F(GpuHopperBackward, RepeatsBitByBit) {
  const auto repeats = static_cast<int>(number_from("STROBE_TEST_REPEATS", 250));
  for_all({"causal", "packed"}, [&](const Case&, const Data&, GpuCase& on_gpu, const std::string& name) {
    for (const bool deterministic : {true, false}) {
      const auto results = [&] {
        Results all = on_gpu.run({.kernel = "hopper", .deterministic = deterministic}).results;
        if (!deterministic) all.dq.clear();
        return all;
      };
      const Results first = results();
      for (int i = 1; i < repeats; ++i) {
        ASSERT_EQ(first_difference(first, results()), "") << name << ", repetition " << i;
      }
    }
  });
}

enum class Option { dropout, alibi, softcap, sinks, bias, shared_bias };

// Cases with the option by name.
std::vector<std::pair<std::string, Case>> cases_with(Option option, std::int64_t d) {
  auto cases = named_cases(d);
  float p = 0.1f;
  for (auto& [name, c] : cases) {
    if (option == Option::alibi) {
      c.alibi = true;
      if (c.alignment == Alignment::unset) c.alignment = d == 64 ? Alignment::top_left : Alignment::bottom_right;
      continue;
    }
    if (option == Option::softcap || option == Option::sinks) {
      c.softcap = option == Option::softcap ? 5 : 0;
      c.sinks = true;
      continue;
    }
    if (option == Option::bias || option == Option::shared_bias) {
      while (c.sk % 8 != 0) ++c.sk;                             // bias rows are multiples of 16 bytes
      if (c.lengths == Lengths::packed) c.lengths_k[0] = c.sk;  // the longest sequence
      if (c.alignment == Alignment::unset) c.alignment = Alignment::bottom_right;
      c.bias = true, c.bias_dtype = c.dtype, c.bias_shape = {option == Option::bias, option == Option::bias, true};
      if (name == "causal") c.bias_values = BiasValues::lowest;
      if (name == "packed") c.bias_values = BiasValues::rows_minus_inf;
      continue;
    }
    c.dropout = p;
    p = p < 0.5f ? p + 0.2f : 0.1f;
  }
  cases[0].second.heads_q = 70, cases[0].second.heads_kv = 35;  // more key tiles than multiprocessors
  return cases;
}

bool chooses_hopper(GpuCase& on_gpu, bool deterministic = true) {
  const Execution execution{.device = Device::cuda, .deterministic = deterministic};
  for (const Verdict& verdict : explain(on_gpu.attention(), Pass::backward, execution)) {
    if (verdict.kernel == "hopper") return verdict.chosen;
  }
  return false;
}

void expect_gradients_with(Option option) {
  GpuLane lane;
  for (const std::int64_t d : {64, 128, 256}) {
    const bool biased = option == Option::bias || option == Option::shared_bias;
    if (biased && d > cuda::sm90::kBiasBackwardDim) continue;
    for (const auto& [name, c] : cases_with(option, d)) {
      const Data data(c);
      GpuCase on_gpu(data, lane);
      const std::string refusal = on_gpu.refusal("hopper", Pass::backward);
      if (needs_hopper(refusal)) GTEST_SKIP() << refusal;
      // hopper refuses a shared bias with `deterministic`
      if (option != Option::shared_bias) {
        ASSERT_EQ(refusal, "") << describe(c);
      }
      EXPECT_TRUE(chooses_hopper(on_gpu, option != Option::shared_bias)) << describe(c);
      const Results reference = oracle(data, 16);
      for (const bool deterministic : {true, false}) {
        const Outcome outcome = on_gpu.run({.kernel = "", .deterministic = deterministic});
        const std::string what = fmt::format("d {}, {}{}", d, name, deterministic ? ", in order" : ", in any order");
        EXPECT_EQ(outcome.complaint, "") << what;
        expect_near(c, reference, outcome.results, 8, what);
      }
    }
  }
}

TEST_F(GpuHopperBackward, Dropout) { expect_gradients_with(Option::dropout); }

TEST_F(GpuHopperBackward, Alibi) { expect_gradients_with(Option::alibi); }

TEST_F(GpuHopperBackward, Softcap) { expect_gradients_with(Option::softcap); }

TEST_F(GpuHopperBackward, Sinks) { expect_gradients_with(Option::sinks); }

TEST_F(GpuHopperBackward, Bias) { expect_gradients_with(Option::bias); }

TEST_F(GpuHopperBackward, SharedBias) { expect_gradients_with(Option::shared_bias); }

TEST_F(GpuHopperBackward, DropoutRepeatsBitByBit) {
  const auto repeats = static_cast<int>(number_from("STROBE_TEST_REPEATS", 250));
  GpuLane lane;
  for (const std::int64_t d : {64, 128, 256}) {
    for (const auto& [name, c] : cases_with(Option::dropout, d)) {
      if (name != "causal" && name != "packed") continue;
      const Data data(c);
      GpuCase on_gpu(data, lane);
      const std::string refusal = on_gpu.refusal("hopper", Pass::backward);
      if (needs_hopper(refusal)) GTEST_SKIP() << refusal;
      for (const bool deterministic : {true, false}) {
        const auto results = [&] {
          Results all = on_gpu.run({.kernel = "", .deterministic = deterministic}).results;
          if (!deterministic) all.dq.clear();
          return all;
        };
        const Results first = results();
        for (int i = 1; i < repeats; ++i) {
          ASSERT_EQ(first_difference(first, results()), "") << d << ", " << name << ", repetition " << i;
        }
      }
    }
  }
}

// All probabilities are equal. Column e of K and of dO is 1, 2 and 4 at the positions e, e + D and e + 2 D, and 0
// elsewhere; V is 1. So dV shows which rows dropout keeps for a key, and dQ which keys it keeps for a row.
TEST_F(GpuHopperBackward, DropoutMaskEqualsTheSpecification) {
  GpuLane lane;
  for (const std::int64_t d : {64, 128, 256}) {
    Case c = case_from("b2 h4/2 s{}x{} d{} bf16 seed=44", 3 * d, 3 * d, d);
    c.scale = 1, c.dropout = 0.5f;
    Data data(c);
    const std::int64_t n = 3 * d;
    const auto digit = [&](std::int64_t position, std::int64_t e) {
      return e == position % d ? static_cast<float>(1 << position / d) : 0;
    };
    for (std::int64_t b = 0; b < c.batch; ++b) {
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t e = 0; e < d; ++e) {
          for (std::int64_t h = 0; h < c.heads_q; ++h) {
            data.q.set(b, h, i, e, 0);
            data.d_o.set(b, h, i, e, digit(i, e));
          }
          for (std::int64_t h = 0; h < c.heads_kv; ++h) {
            data.k.set(b, h, i, e, digit(i, e));
            data.v.set(b, h, i, e, 1);
          }
        }
      }
    }
    data.remember();
    GpuCase on_gpu(data, lane);
    const std::string refusal = on_gpu.refusal("hopper", Pass::backward);
    if (needs_hopper(refusal)) GTEST_SKIP() << refusal;
    ASSERT_EQ(refusal, "");
    ASSERT_TRUE(chooses_hopper(on_gpu));
    const Results results = on_gpu.run({.kernel = ""}).results;
    const std::uint32_t threshold = dropout_threshold(c.dropout);
    const double scale = dropout_scale(threshold), size = static_cast<double>(n);
    const auto keeps = [&](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
      return long{dropout_keeps(data.attention().dropout.seed, threshold, b, h, i, j)};
    };
    const auto at = [&](std::int64_t b, std::int64_t heads, std::int64_t h, std::int64_t row, std::int64_t e) {
      return static_cast<std::size_t>(((b * heads + h) * n + row) * d + e);
    };
    const std::int64_t group = c.heads_q / c.heads_kv;
    for (std::int64_t b = 0; b < c.batch; ++b) {
      for (std::int64_t row = 0; row < n; ++row) {
        for (std::int64_t h = 0; h < c.heads_kv; ++h) {
          for (std::int64_t e = 0; e < d; ++e) {
            long kept = 0;
            for (std::int64_t g = 0; g < group; ++g) {
              for (int t = 0; t < 3; ++t) kept += keeps(b, h * group + g, e + t * d, row) << t;
            }
            ASSERT_EQ(std::lround(results.dv[at(b, c.heads_kv, h, row, e)] * size / scale), kept)
                << "d " << d << " b " << b << " KV head " << h << " key " << row << " row " << e;
          }
        }
        for (std::int64_t h = 0; h < c.heads_q; ++h) {
          long in_row = 0;
          for (std::int64_t j = 0; j < n; ++j) in_row += keeps(b, h, row, j);
          const double delta = scale * static_cast<double>(in_row) / size;  // divided by dP, which is 1, 2 or 4
          for (std::int64_t e = 0; e < d; ++e) {
            long kept = 0;
            for (int t = 0; t < 3; ++t) kept += keeps(b, h, row, e + t * d) << t;
            const double sum = results.dq[at(b, c.heads_q, h, row, e)] * size / static_cast<double>(1 << row / d);
            ASSERT_EQ(std::lround((sum + 7 * delta) / scale), kept)
                << "d " << d << " b " << b << " head " << h << " row " << row << " key " << e;
          }
        }
      }
    }
  }
}

// Runs the case on two simulated GPUs and compares bits. One has more multiprocessors than the real GPU, so not all
// blocks are resident at the same time. The other has a single multiprocessor, so one block or cluster processes all
// work items.
TEST_F(GpuHopperBackward, MoreBlocksThanFitRunLater) {
  GpuLane lane;
  for (const std::int64_t d : {64, 128, 256}) {
    Case c = case_from("h350/175 s200x170 d{} bf16 seed=43", d);
    const std::int64_t least_blocks = c.heads_q * 2;  // 200 rows need two or more tiles of at most 128 rows
    ASSERT_GT(least_blocks, current_gpu().facts.multiprocessors);
    ASSERT_LE(2 * least_blocks, cuda::sm90::most_together(100'000));
    const Data data(c);
    GpuCase on_gpu(data, lane);
    const std::string refusal = on_gpu.refusal("hopper");
    if (needs_hopper(refusal)) GTEST_SKIP() << refusal;
    ASSERT_EQ(refusal, "") << describe(c);
    GpuPasses passes(on_gpu, lane, {.kernel = "hopper"});
    passes.launch();
    const auto expected = passes.outputs();
    for (const int multiprocessors : {1, 100'000}) {
      passes.poison();
      passes.launch_forward(lane.stream.handle());
      Problem problem = passes.backward_problem();
      problem.gpu.multiprocessors = multiprocessors;
      choose(problem, "hopper").plan.run(problem, passes.workspace());
      EXPECT_TRUE(passes.outputs() == expected) << d << ", " << multiprocessors << " multiprocessors";
    }
  }
}

}  // namespace
}  // namespace strobe::test
