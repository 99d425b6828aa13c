// Tiles of the Hopper forward: pure functions of the problem and the card, for kernel, launch, explain and tests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "attention/cuda/sm90/forward/rules.h"
#include "attention/cuda/splits.h"

namespace strobe::cuda::sm90 {

constexpr int rows_of(const ForwardShape& shape) { return 64 * shape.consumers; }
constexpr int threads_of(const ForwardShape& shape) { return 128 * (shape.consumers + 1); }

// Registers of a thread that multiplies, and of one that loads: 64 K in all.
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
  return dims.d == 64 ? ForwardShape{3, 64, 4, 2, true, true} : ForwardShape{2, 128, 2, 2, false, true};
}
static_assert(registers_suffice(dropping_shape({64, 64})) && registers_suffice(dropping_shape({128, 128})));
inline constexpr int kMostDroppingDim = std::rbegin(kDroppingDims)->d;

// The stages of Q, those of K, of V, the barriers, then 16 bytes for each tile of Q.
constexpr std::size_t forward_shared_bytes(HeadDims dims, const ForwardShape& shape) {
  const auto slabs = [](int columns) { return static_cast<std::size_t>((columns + 63) / 64 * 128); };
  return slabs(dims.d) * (shape.q_stages * rows_of(shape) + shape.stages * shape.keys) +
         slabs(dims.dv) * shape.stages * shape.keys + forward_barriers(shape) * 8 + shape.q_stages * 16;
}

struct ForwardFacts {
  int d = 0, dv = 0;
  std::int64_t heads = 0;  // of all sequences
  std::int64_t max_q = 0, max_k = 0;
  int multiprocessors = 1;
  bool uneven = false;  // as in ForwardRule
  bool drops = false;
};

struct ForwardConfig {
  HeadDims dims{};  // padded
  ForwardShape shape{};
  std::size_t shared_bytes = 0;
  int splits = 1;  // of the keys, each for a block of its own
};

// Whether every problem has a rule, and one where its keys are split.
constexpr bool forward_rules_are_whole() {
  for (const HeadDims dims : kForwardDims) {
    for (const bool uneven : {false, true}) {
      bool found = false, splits = false;
      for (const ForwardRule& rule : kForwardRules) {
        if (rule.dims != dims || rule.uneven != uneven) continue;
        found = found || rule.least_keys == 0;
        splits = splits || rule.shape.splits;
      }
      if (!found || !splits) return false;
    }
  }
  return true;
}
static_assert(forward_rules_are_whole());

// Splits that fill the card, each with at least four tiles of keys, where whole rows leave half of it empty.
// rows, keys: of a tile.
constexpr int forward_splits(const ForwardFacts& facts, int rows, int keys) {
  const std::int64_t tiles = facts.heads * ((facts.max_q + rows - 1) / rows);
  const std::int64_t key_tiles = (facts.max_k + keys - 1) / keys;
  if (tiles == 0 || tiles * 2 > facts.multiprocessors || key_tiles < 8) return 1;
  const std::int64_t most = std::min<std::int64_t>({key_tiles / 4, facts.multiprocessors / tiles, kMostSplits});
  const std::int64_t share = (key_tiles + most - 1) / most;
  return static_cast<int>((key_tiles + share - 1) / share);  // no split without a tile
}

// Head dimensions of at most 256, or kMostDroppingDim.
constexpr ForwardConfig forward_config(const ForwardFacts& facts) {
  ForwardConfig config;
  const auto pad = [&](const auto& all) {
    for (const HeadDims dims : all) {
      config.dims = dims;
      if (facts.d <= dims.d && facts.dv <= dims.dv) break;
    }
  };
  facts.drops ? pad(kDroppingDims) : pad(kForwardDims);
  const auto find = [&](bool splits) {
    if (facts.drops) return dropping_shape(config.dims);
    for (const ForwardRule& rule : kForwardRules) {
      if (rule.dims == config.dims && rule.uneven == facts.uneven && (rule.shape.splits || !splits) &&
          (splits || facts.max_k >= rule.least_keys)) {
        return rule.shape;
      }
    }
    return ForwardShape{};
  };
  config.shape = find(false);
  const ForwardShape splitting = find(true);
  if (const int splits = forward_splits(facts, rows_of(splitting), splitting.keys); splits > 1) {
    config.shape = splitting;
    config.splits = splits;
  }
  config.shared_bytes = forward_shared_bytes(config.dims, config.shape);
  return config;
}

}  // namespace strobe::cuda::sm90
