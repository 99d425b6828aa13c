// Tile configuration of the Hopper forward: constexpr functions of the problem and the GPU, used by the kernel, its
// launch, `strobe explain` and tests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "attention/cuda/sm90/forward/estimate.h"
#include "attention/cuda/sm90/forward/rules.h"
#include "attention/cuda/splits.h"

namespace strobe::cuda::sm90 {

constexpr int threads_of(const ForwardShape& shape) { return 128 * (shape.consumers + 1); }

// setmaxnreg targets: registers per thread of a consumer and of the producer warpgroup; all threads of a block together
// have at most 64 K. With one consumer warpgroup the launch already gives each thread the maximum, and setmaxnreg is
// not used.
constexpr bool moves_registers(const ForwardShape& shape) { return shape.consumers > 1; }
constexpr int consumer_registers(const ForwardShape& shape) {
  return shape.consumers == 4 ? 112 : shape.consumers == 3 ? 160 : 240;
}
constexpr int producer_registers(const ForwardShape& shape) { return shape.consumers == 3 ? 32 : 24; }

// True if the block starts with at least the registers that setmaxnreg distributes. Otherwise a warpgroup would wait
// forever.
constexpr bool registers_suffice(const ForwardShape& shape) {
  const int started_with = 65536 / threads_of(shape) / 8 * 8 * (shape.consumers + 1);
  return shape.consumers * consumer_registers(shape) + producer_registers(shape) <= started_with;
}
static_assert(std::all_of(std::begin(kForwardRules), std::end(kForwardRules),
                          [](const ForwardRule& rule) { return registers_suffice(rule.shape); }));

// mbarriers in shared memory: "full" and "free" (empty) per stage of Q, of K and of V.
constexpr int forward_barriers(const ForwardShape& shape) { return 2 * shape.q_stages + 4 * shape.stages; }

// Padded head dimensions that have a kernel. A problem uses the first pair that is large enough; TMA fills missing
// columns with zeros.
inline constexpr HeadDims kForwardDims[] = {{64, 64}, {96, 96}, {128, 128}, {192, 128}, {192, 192}, {256, 256}};

// Head dimensions that have a kernel with dropout. Each has one shape, because drawing random numbers dominates the
// time with any shape.
inline constexpr HeadDims kDroppingDims[] = {{64, 64}, {128, 128}, {256, 256}};
constexpr ForwardShape dropping_shape(HeadDims dims) {
  return dims.d == 64    ? ForwardShape{3, 64, 4, 2, true, false, true}
         : dims.d == 128 ? ForwardShape{2, 128, 2, 2, false, false, true}
                         : ForwardShape{2, 80, 2, 1, false, false, true};
}
static_assert(std::all_of(std::begin(kDroppingDims), std::end(kDroppingDims),
                          [](HeadDims dims) { return registers_suffice(dropping_shape(dims)); }));

// True if registers have space for only one bit per kept score between draw and use, not for the random words.
constexpr bool packs_dropout(HeadDims dims) { return dims.dv > 128; }

// Head dimensions that have a kernel with ALiBi, and its shape.
inline constexpr HeadDims kAlibiDims[] = {{64, 64}, {128, 128}, {256, 256}};
constexpr ForwardShape alibi_shape(HeadDims dims) {
  return dims.d == 64    ? ForwardShape{3, 128, 3, 2, true}
         : dims.d == 128 ? ForwardShape{2, 128, 2, 2, false}
                         : ForwardShape{2, 80, 2, 1, false};
}
static_assert(std::all_of(std::begin(kAlibiDims), std::end(kAlibiDims),
                          [](HeadDims dims) { return registers_suffice(alibi_shape(dims)); }));

// Head dimensions that have a kernel with a bias, and its shape. Above 128 shared memory has no space for the bias.
inline constexpr HeadDims kBiasDims[] = {{64, 64}, {128, 128}};
constexpr ForwardShape bias_shape(HeadDims dims) {
  return dims.d == 64 ? ForwardShape{2, 128, 4, 2, true} : ForwardShape{2, 128, 2, 2, false};
}
inline constexpr int kMostBiasDim = std::rbegin(kBiasDims)->d;

// Bytes of the bias of a tile.
constexpr std::size_t bias_bytes(const ForwardShape& shape) {
  return static_cast<std::size_t>(rows_of(shape)) * static_cast<std::size_t>(shape.keys) * 2;
}

// Shapes of 64 or 128 rows for problems that leave much of the GPU idle. With fewer rows per tile the last tile
// finishes sooner. The numbers of keys and stages are chosen to fill the shared memory. Above 128 columns of O a
// warpgroup lacks the registers to merge the accumulators of another one, so one consumer owns the 64 rows.
constexpr ForwardShape small_shape(HeadDims dims, int rows) {
  const bool few = rows == 64;
  if (dims.d == 64) return few ? ForwardShape{2, 128, 6, 2, false, true, true} : ForwardShape{2, 128, 5, 2, false};
  if (dims.d <= 128) return few ? ForwardShape{2, 80, 4, 2, false, true, true} : ForwardShape{2, 128, 2, 2, false};
  if (dims.dv == 128) return few ? ForwardShape{2, 64, 4, 1, false, true, true} : ForwardShape{2, 128, 2, 1, false};
  if (dims.d == 192) return few ? ForwardShape{1, 112, 2, 2, false, false, true} : ForwardShape{2, 112, 2, 1, false};
  return few ? ForwardShape{1, 80, 2, 1, false, false, true} : ForwardShape{2, 80, 2, 1, false};
}
static_assert(std::all_of(std::begin(kForwardDims), std::end(kForwardDims), [](HeadDims dims) {
  return registers_suffice(small_shape(dims, 64)) && registers_suffice(small_shape(dims, 128));
}));

// Bytes of the buffer through which two warpgroups that share rows exchange O in fp32, and maximum and sum of each
// thread's two rows.
constexpr std::size_t shared_rows_bytes(HeadDims dims, const ForwardShape& shape) {
  return shape.shares ? static_cast<std::size_t>(64 * 4 * dims.dv + 128 * 16) : 0;
}

// Bytes of shared memory, laid out in this order: stages of Q, of K, of V, barriers, a 16-byte WorkTile per stage of Q,
// exchange buffer of shared rows.
constexpr std::size_t forward_shared_bytes(HeadDims dims, const ForwardShape& shape) {
  const auto slabs = [](int columns) { return static_cast<std::size_t>((columns + 63) / 64 * 128); };
  return slabs(dims.d) * (shape.q_stages * rows_of(shape) + shape.stages * shape.keys) +
         slabs(dims.dv) * shape.stages * shape.keys + forward_barriers(shape) * 8 + shape.q_stages * 16 +
         shared_rows_bytes(dims, shape);
}

// True if each pair of head dimensions has rules without a lower bound on the keys, one for `uneven` problems and one
// for the others.
constexpr bool forward_rules_are_whole() {
  for (const HeadDims dims : kForwardDims) {
    for (const bool uneven : {false, true}) {
      if (std::none_of(std::begin(kForwardRules), std::end(kForwardRules), [&](const ForwardRule& rule) {
            return rule.dims == dims && rule.uneven == uneven && rule.least_keys == 0;
          })) {
        return false;
      }
    }
  }
  return true;
}
static_assert(forward_rules_are_whole());

// A problem whose rows fill a tile, and which has more than this many tiles per multiprocessor, keeps the tiles of the
// rule: the rules were measured on such problems.
inline constexpr std::int64_t kRuleRounds = 4;

// Replaces the rule's tiles by small ones, with or without split keys, if the estimate predicts less time.
constexpr ForwardConfig with_small_tiles(const ForwardFacts& facts, const ForwardConfig& rule,
                                         const ForwardClocks& fitted) {
  const bool fills_a_tile = facts.max_seqlen_q >= rows_of(rule.shape);
  if (fills_a_tile && tiles_of(facts, rule) > kRuleRounds * facts.multiprocessors) return rule;
  ForwardConfig best = rule;
  double least = forward_clocks(facts, rule, fitted) / fitted.gain;
  const auto consider = [&](const ForwardConfig& tried) {
    const double clocks = forward_clocks(facts, tried, fitted);
    if (clocks < least) least = clocks, best = tried;
  };
  ForwardConfig with_128_rows = rule, with_64_rows = rule;
  with_128_rows.shape = small_shape(rule.dims, 128);
  with_64_rows.shape = small_shape(rule.dims, 64);
  consider(with_128_rows);
  consider(with_64_rows);
  // Split counts: first as many as fill the GPU, then half of that, and so on.
  least /= fitted.gain;
  const std::int64_t tiles = tiles_of(facts, with_64_rows);
  const std::int64_t key_tiles = ceil_div(facts.max_seqlen_k, with_64_rows.shape.keys);
  if (tiles == 0) return best;
  const std::int64_t filling = (facts.uneven ? 2 : 1) * facts.multiprocessors / tiles;
  for (std::int64_t splits = std::min({filling, key_tiles, kMostSplits}); splits > 1; splits /= 2) {
    with_64_rows.splits = splits_with_tiles(key_tiles, splits);
    consider(with_64_rows);
  }
  return best;
}

// True for the shapes that are faster with the rotated loop of kernel.cuh (figures in docs/kernels-cuda.md).
constexpr bool rotates(HeadDims dims, const ForwardShape& shape) {
  return (dims == HeadDims{128, 128} || dims == HeadDims{256, 256}) && !shape.shares && !shape.splits;
}

// Configuration from kForwardRules, or with options from dropping_shape(), alibi_shape() or bias_shape(). d and dv must
// be at most 256, with a bias at most kMostBiasDim.
constexpr ForwardConfig rule_config(const ForwardFacts& facts) {
  ForwardConfig config;
  const auto pad = [&](const auto& all) {
    for (const HeadDims dims : all) {
      config.dims = dims;
      if (facts.d <= dims.d && facts.dv <= dims.dv) break;
    }
  };
  facts.drops ? pad(kDroppingDims) : facts.alibi ? pad(kAlibiDims) : facts.bias ? pad(kBiasDims) : pad(kForwardDims);
  if (facts.drops) {
    config.shape = dropping_shape(config.dims);
    config.splits =
        filling_splits(tiles_of(facts, config), ceil_div(facts.max_seqlen_k, config.shape.keys), facts.multiprocessors);
  } else if (facts.alibi) {
    config.shape = alibi_shape(config.dims);
  } else if (facts.bias) {
    config.shape = bias_shape(config.dims);
  } else {
    for (const ForwardRule& rule : kForwardRules) {
      config.shape = rule.shape;
      if (rule.dims == config.dims && rule.uneven == facts.uneven && facts.max_seqlen_k >= rule.least_keys) break;
    }
  }
  return config;
}

constexpr ForwardConfig forward_config(const ForwardFacts& facts, const ForwardClocks& fitted = {}) {
  ForwardConfig config = rule_config(facts);
  if (!facts.drops && !facts.alibi && !facts.bias) config = with_small_tiles(facts, config, fitted);
  config.shared_bytes = forward_shared_bytes(config.dims, config.shape) + (facts.bias ? bias_bytes(config.shape) : 0);
  return config;
}

// Configuration for measurements. rows: 128 or 64 rows per tile, or 0 for the tiles of the rules. Splits the keys
// `splits` ways if the shape supports it, but into no more splits than full key tiles.
constexpr ForwardConfig forced_config(const ForwardFacts& facts, int rows, int splits) {
  ForwardConfig config = rule_config(facts);
  if (rows > 0) config.shape = small_shape(config.dims, rows);
  const std::int64_t most = config.shape.splits ? facts.max_seqlen_k / config.shape.keys : 1;
  config.splits = static_cast<int>(std::clamp<std::int64_t>(most, 1, splits));
  config.shared_bytes = forward_shared_bytes(config.dims, config.shape);
  return config;
}

}  // namespace strobe::cuda::sm90
