// Tiles of the Hopper forward: pure functions of the problem and the card, for kernel, launch, explain and tests.
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

// Registers of a thread that multiplies, and of one that loads: 64 K in all. A single warpgroup starts with all that a
// thread can have.
constexpr bool moves_registers(const ForwardShape& shape) { return shape.consumers > 1; }
constexpr int consumer_registers(const ForwardShape& shape) {
  return shape.consumers == 4 ? 112 : shape.consumers == 3 ? 160 : 240;
}
constexpr int producer_registers(const ForwardShape& shape) { return shape.consumers == 3 ? 32 : 24; }

// Whether a block starts with as many, or a warpgroup would wait for them without end.
constexpr bool registers_suffice(const ForwardShape& shape) {
  const int started_with = 65536 / threads_of(shape) / 8 * 8 * (shape.consumers + 1);
  return shape.consumers * consumer_registers(shape) + producer_registers(shape) <= started_with;
}
static_assert(std::all_of(std::begin(kForwardRules), std::end(kForwardRules),
                          [](const ForwardRule& rule) { return registers_suffice(rule.shape); }));

// In shared memory: of a stage, one for "full" and one for "free".
constexpr int forward_barriers(const ForwardShape& shape) { return 2 * shape.q_stages + 4 * shape.stages; }

// Head dimensions that have a kernel; smaller ones are padded to the next, by the copy engine.
inline constexpr HeadDims kForwardDims[] = {{64, 64}, {96, 96}, {128, 128}, {192, 128}, {192, 192}, {256, 256}};

// With dropout one shape each: what it draws is most of the work, whatever the tiles.
inline constexpr HeadDims kDroppingDims[] = {{64, 64}, {128, 128}};
constexpr ForwardShape dropping_shape(HeadDims dims) {
  return dims.d == 64 ? ForwardShape{3, 64, 4, 2, true, false, true} : ForwardShape{2, 128, 2, 2, false, false, true};
}
static_assert(registers_suffice(dropping_shape({64, 64})) && registers_suffice(dropping_shape({128, 128})));
inline constexpr int kMostDroppingDim = std::rbegin(kDroppingDims)->d;

// With 64 rows or 128, for problems that leave much of the card empty: the fewer rows a tile has, the sooner the last
// one is done. As many keys and stages as fit. Above 128 columns of O a warpgroup has no registers to add another's.
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

// What one warpgroup leaves the other of shared rows: O in fp32, and maximum and sum of a thread's two rows.
constexpr std::size_t shared_rows_bytes(HeadDims dims, const ForwardShape& shape) {
  return shape.shares ? static_cast<std::size_t>(64 * 4 * dims.dv + 128 * 16) : 0;
}

// The stages of Q, those of K, of V, the barriers, 16 bytes for each tile of Q, then what shared rows need.
constexpr std::size_t forward_shared_bytes(HeadDims dims, const ForwardShape& shape) {
  const auto slabs = [](int columns) { return static_cast<std::size_t>((columns + 63) / 64 * 128); };
  return slabs(dims.d) * (shape.q_stages * rows_of(shape) + shape.stages * shape.keys) +
         slabs(dims.dv) * shape.stages * shape.keys + forward_barriers(shape) * 8 + shape.q_stages * 16 +
         shared_rows_bytes(dims, shape);
}

// Whether every problem has a rule.
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

// Small tiles where they are faster by what the estimate can tell, and keys split likewise; not where the rule's
// tiles, full of rows, fill the card more than a few times, as they did when the rules were measured.
inline constexpr std::int64_t kRuleRounds = 4;

constexpr ForwardConfig with_small_tiles(const ForwardFacts& facts, const ForwardConfig& rule,
                                         const ForwardClocks& fitted) {
  const bool fills_a_tile = facts.max_q >= rows_of(rule.shape);
  if (fills_a_tile && tiles_of(facts, rule) > kRuleRounds * facts.multiprocessors) return rule;
  ForwardConfig best = rule;
  double least = forward_clocks(facts, rule, fitted) / fitted.gain;
  const auto consider = [&](const ForwardConfig& tried) {
    const double clocks = forward_clocks(facts, tried, fitted);
    if (clocks < least) least = clocks, best = tried;
  };
  ForwardConfig two = rule, one = rule;
  two.shape = small_shape(rule.dims, 128);
  one.shape = small_shape(rule.dims, 64);
  consider(two);
  consider(one);
  // Splits that fill the card, or half of it, and so on.
  least /= fitted.gain;
  const std::int64_t tiles = tiles_of(facts, one);
  const std::int64_t key_tiles = ceil_div(facts.max_k, one.shape.keys);
  if (tiles == 0) return best;
  const std::int64_t filling = (facts.uneven ? 2 : 1) * facts.multiprocessors / tiles;
  for (std::int64_t splits = std::min({filling, key_tiles, kMostSplits}); splits > 1; splits /= 2) {
    one.splits = splits_with_tiles(key_tiles, splits);
    consider(one);
  }
  return best;
}

// True for the shapes whose rotated loop is faster (docs/kernels-cuda.md has the figures).
constexpr bool rotates(HeadDims dims, const ForwardShape& shape) {
  return (dims == HeadDims{128, 128} || dims == HeadDims{256, 256}) && !shape.shares && !shape.splits;
}

// Those of the table. Head dimensions of at most 256, or kMostDroppingDim.
constexpr ForwardConfig rule_config(const ForwardFacts& facts) {
  ForwardConfig config;
  const auto pad = [&](const auto& all) {
    for (const HeadDims dims : all) {
      config.dims = dims;
      if (facts.d <= dims.d && facts.dv <= dims.dv) break;
    }
  };
  facts.drops ? pad(kDroppingDims) : pad(kForwardDims);
  if (facts.drops) {
    config.shape = dropping_shape(config.dims);
    config.splits =
        filling_splits(tiles_of(facts, config), ceil_div(facts.max_k, config.shape.keys), facts.multiprocessors);
  } else {
    for (const ForwardRule& rule : kForwardRules) {
      config.shape = rule.shape;
      if (rule.dims == config.dims && rule.uneven == facts.uneven && facts.max_k >= rule.least_keys) break;
    }
  }
  return config;
}

constexpr ForwardConfig forward_config(const ForwardFacts& facts, const ForwardClocks& fitted = {}) {
  ForwardConfig config = rule_config(facts);
  if (!facts.drops) config = with_small_tiles(facts, config, fitted);
  config.shared_bytes = forward_shared_bytes(config.dims, config.shape);
  return config;
}

// For measurements: tiles of 128 or 64 rows, or with rows 0 the table's; keys split as often as they fill tiles.
constexpr ForwardConfig forced_config(const ForwardFacts& facts, int rows, int splits) {
  ForwardConfig config = rule_config(facts);
  if (rows > 0) config.shape = small_shape(config.dims, rows);
  const std::int64_t most = config.shape.splits ? facts.max_k / config.shape.keys : 1;
  config.splits = static_cast<int>(std::clamp<std::int64_t>(most, 1, splits));
  config.shared_bytes = forward_shared_bytes(config.dims, config.shape);
  return config;
}

}  // namespace strobe::cuda::sm90
