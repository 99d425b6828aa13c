// Tests the tile shapes of the Hopper kernels and the selection among them; needs no GPU.
#include "attention/cuda/sm90/backward/config.h"
#include "attention/cuda/sm90/backward/tile_count.h"
#include "attention/cuda/sm90/backward_fp32/config.h"
#include "attention/cuda/sm90/decode/config.h"
#include "attention/cuda/sm90/device/tile_scheduler.h"
#include "attention/cuda/sm90/forward/config.h"
#include "attention/cuda/sm90/forward/scheduler.h"
#include "attention/cuda/sm90/forward_fp32/config.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace strobe::cuda::sm90 {
namespace {

constexpr std::size_t kSharedBytes = 227 << 10;

ForwardFacts facts_of(int d, int dv, std::int64_t heads, std::int64_t max_seqlen_q, std::int64_t max_seqlen_k,
                      bool uneven) {
  return {.d = d,
          .dv = dv,
          .heads = heads,
          .max_seqlen_q = max_seqlen_q,
          .max_seqlen_k = max_seqlen_k,
          .multiprocessors = 132,
          .uneven = uneven};
}

TEST(HopperConfig, EveryRuleFitsTheGpu) {
  for (const ForwardRule& rule : kForwardRules) {
    EXPECT_LE(forward_shared_bytes(rule.dims, rule.shape), kSharedBytes) << rule.dims.d << ' ' << rule.shape.keys;
    EXPECT_EQ(rule.shape.keys % 16, 0) << rule.shape.keys;
  }
  for (const HeadDims dims : kForwardDims) {
    for (const int rows : {64, 128}) {
      const ForwardShape shape = small_shape(dims, rows);
      EXPECT_EQ(rows_of(shape), rows);
      EXPECT_LE(forward_shared_bytes(dims, shape), kSharedBytes) << dims.d << ' ' << rows;
    }
  }
}

TEST(HopperConfig, EveryProblemHasTiles) {
  for (const bool uneven : {false, true}) {
    for (const std::int64_t keys : {33, 1024, 1536, 100'000}) {
      for (int d = 8; d <= 256; d += 8) {
        const ForwardConfig config = forward_config(facts_of(d, d, 1000, 1000, keys, uneven));
        EXPECT_GT(config.shape.consumers, 0) << d << ' ' << keys;
        EXPECT_LE(d, config.dims.d);
        EXPECT_LE(config.dims.d, d < 64 ? 64 : d + 63) << "padded beyond the next head dimension";
        EXPECT_EQ(config.splits, 1) << "keys are not split on a full GPU";
      }
    }
  }
}

TEST(HopperConfig, EveryProblemWithAlibiHasTiles) {
  for (int d = 8; d <= 256; d += 8) {
    ForwardFacts facts = facts_of(d, d, 1000, 1000, 1000, true);
    facts.alibi = true;
    const ForwardConfig config = forward_config(facts);
    EXPECT_LE(d, config.dims.d);
    EXPECT_EQ(config.shape, alibi_shape(config.dims)) << d;
    EXPECT_LE(config.shared_bytes, kSharedBytes) << d;
    EXPECT_EQ(config.splits, 1) << d;
  }
}

TEST(HopperConfig, EveryProblemWithABiasHasTiles) {
  for (int d = 8; d <= kMostBiasDim; d += 8) {
    ForwardFacts facts = facts_of(d, d, 1000, 1000, 1000, true);
    facts.bias = true;
    const ForwardConfig config = forward_config(facts);
    EXPECT_LE(d, config.dims.d);
    EXPECT_EQ(config.shape, bias_shape(config.dims)) << d;
    EXPECT_EQ(config.shared_bytes, forward_shared_bytes(config.dims, config.shape) + bias_bytes(config.shape));
    EXPECT_LE(config.shared_bytes, kSharedBytes) << d;
    EXPECT_EQ(forward_shared_bytes(config.dims, config.shape) % 16, 0U) << d;
  }
}

TEST(HopperConfig, EveryProblemWithDropoutHasTiles) {
  for (int d = 8; d <= 256; d += 8) {
    ForwardFacts facts = facts_of(d, d, 1000, 1000, 1000, false);
    facts.drops = true;
    const ForwardConfig config = forward_config(facts);
    EXPECT_EQ(config.dims.d, d <= 64 ? 64 : d <= 128 ? 128 : 256) << d;
    EXPECT_EQ(config.shape, dropping_shape(config.dims)) << d;
    EXPECT_LE(config.shared_bytes, kSharedBytes) << d;
    facts.heads = 2;
    EXPECT_GT(forward_config(facts).splits, 1) << d << ": few heads";
    EXPECT_TRUE(config.shape.splits) << d;
  }
  ForwardFacts wide_v = facts_of(64, 128, 1000, 1000, 1000, false);
  wide_v.drops = true;
  EXPECT_EQ(forward_config(wide_v).dims.d, 128) << "no kernel with dropout has D 64 and Dv 128";
}

TEST(HopperConfig, RulesForLongSequencesComeFirst) {
  EXPECT_NE(forward_config(facts_of(64, 64, 1000, 1000, 1024, true)).shape,
            forward_config(facts_of(64, 64, 1000, 1000, 16384, true)).shape);
  for (std::size_t i = 1; i < std::size(kForwardRules); ++i) {
    const ForwardRule &before = kForwardRules[i - 1], &rule = kForwardRules[i];
    if (before.dims == rule.dims && before.uneven == rule.uneven) {
      EXPECT_GT(before.least_keys, rule.least_keys) << i;
    }
  }
}

const ForwardShape& shape_by_rule(const ForwardFacts& facts) {
  for (const ForwardRule& rule : kForwardRules) {
    if (rule.dims.d == facts.d && rule.uneven == facts.uneven && facts.max_seqlen_k >= rule.least_keys)
      return rule.shape;
  }
  ADD_FAILURE();
  return kForwardRules[0].shape;
}

// Uses the sizes at which the tile shapes of kForwardRules were measured.
TEST(HopperConfig, AFullGpuUsesTheRules) {
  for (const int d : {64, 128, 256}) {
    for (std::int64_t length = 512; length <= 16384; length *= 2) {
      for (const bool uneven : {false, true}) {
        const ForwardFacts facts = facts_of(d, d, 16384 / length * 2048 / d, length, length, uneven);
        EXPECT_EQ(forward_config(facts).shape, shape_by_rule(facts)) << d << ' ' << length << ' ' << uneven;
        EXPECT_EQ(forward_config(facts).splits, 1);
      }
    }
  }
}

TEST(HopperConfig, FewHeadsGetSmallTiles) {
  for (const HeadDims dims : kForwardDims) {
    for (const bool uneven : {false, true}) {
      const ForwardConfig config = forward_config(facts_of(dims.d, dims.dv, 1, 4096, 4096, uneven));
      EXPECT_EQ(config.shape, small_shape(dims, 64)) << dims.d;
      EXPECT_EQ(config.splits, uneven ? 4 : 2)
          << dims.d << ": 64 row tiles; half as many key tiles on average under a causal mask";
    }
  }
  EXPECT_EQ(forward_config(facts_of(64, 64, 4, 4096, 4096, false)).shape, small_shape({64, 64}, 128)) << "128 tiles";
  EXPECT_EQ(forward_config(facts_of(128, 128, 2, 4096, 4096, false)).shape, small_shape({128, 128}, 64)) << "128 tiles";
  EXPECT_EQ(forward_config(facts_of(128, 128, 2, 4096, 4096, false)).splits, 1);
}

TEST(HopperConfig, TilesCanBeForced) {
  const ForwardFacts facts = facts_of(128, 128, 2, 1024, 1000, true);
  EXPECT_EQ(forced_config(facts, 0, 1).shape, shape_by_rule(facts));
  EXPECT_EQ(forced_config(facts, 0, 8).splits, 1) << "shapes of the rules do not split keys";
  EXPECT_EQ(forced_config(facts, 128, 1).shape, small_shape({128, 128}, 128));
  EXPECT_EQ(forced_config(facts, 64, 8).shape, small_shape({128, 128}, 64));
  EXPECT_EQ(forced_config(facts, 64, 8).splits, 8);
  EXPECT_EQ(forced_config(facts, 64, 100).splits, 12) << "1000 keys have 12 full tiles of 80 keys";
  EXPECT_EQ(forced_config(facts, 64, 8).shared_bytes, forward_shared_bytes({128, 128}, small_shape({128, 128}, 64)));
}

TEST(HopperConfig, WindowsHaveFewKeysToSplit) {
  ForwardFacts facts = facts_of(128, 128, 1, 4096, 4096, true);
  facts.window = 256;
  EXPECT_EQ(forward_config(facts).splits, 1);
  facts.window = 3000;
  EXPECT_GT(forward_config(facts).splits, 1);
}

// With few rows and many keys, every split has a key tile, and there are blocks for more than half of the
// multiprocessors. There is at most one block per multiprocessor, or two if rows have different numbers of keys.
TEST(HopperConfig, SplitsFillTheGpu) {
  for (const int d : {64, 96, 128, 192, 256}) {
    for (const bool uneven : {false, true}) {
      const ForwardConfig config = forward_config(facts_of(d, d, 8, 128, 65536, uneven));
      EXPECT_TRUE(config.shape.splits) << d;
      const std::int64_t rows = rows_of(config.shape), tiles = 8 * ((128 + rows - 1) / rows);
      const std::int64_t key_tiles = (65536 + config.shape.keys - 1) / config.shape.keys;
      const std::int64_t share = (key_tiles + config.splits - 1) / config.splits;
      EXPECT_GT(config.splits * tiles, 132 / 2) << d;
      EXPECT_LE(config.splits * tiles, uneven ? 2 * 132 : 132) << d;
      EXPECT_LT((config.splits - 1) * share, key_tiles) << d << ": a split without a tile";
    }
  }
  EXPECT_EQ(forward_config(facts_of(128, 128, 8, 128, 512, false)).splits, 1) << "few keys";
  EXPECT_EQ(forward_config(facts_of(128, 128, 8, 0, 65536, false)).splits, 1) << "no rows";
}

// A work counter needs a memset per call, so it is used only where tiles differ in duration and outnumber the blocks.
TEST(HopperConfig, WorkCounterIsUsedForMoreTilesThanBlocks) {
  Params p;
  p.batch = 2, p.heads_q = 33, p.max_seqlen_q = 300;
  EXPECT_TRUE(uses_work_counter(forward_scheduler(p, 128, 1), true, 132));
  EXPECT_FALSE(uses_work_counter(forward_scheduler(p, 192, 1), true, 132)) << "132 tiles";
  EXPECT_TRUE(uses_work_counter(forward_scheduler(p, 192, 2), true, 132)) << "split keys double the tiles";
  EXPECT_FALSE(uses_work_counter(forward_scheduler(p, 128, 1), false, 132)) << "all tiles take equally long";
}

TEST(HopperConfig, TheBackwardFitsTheGpu) {
  for (int d = 8; d <= 256; d += 8) {
    for (const std::int64_t heads : {1, 1000}) {
      const BackwardConfig config = backward_config({d, heads, 1024, 132});
      EXPECT_LE(d, config.d);
      EXPECT_LE(config.shared_bytes, kSharedBytes) << d;
    }
  }
}

TEST(HopperConfig, TheBackwardUsesTallTilesForLongSequences) {
  const BackwardFacts facts{.d = 128, .heads = 64, .max_seqlen_k = 4096, .multiprocessors = 132, .rows_per_key = 4096};
  const BackwardConfig tall = backward_config(facts);
  EXPECT_EQ(tall.shape, (BackwardShape{80, 128, Share::keys}));
  // Bytes: 32768 each for K and V; 20480 each for two stages of Q, two of dO, and two tiles of dS; 40960 for dQ; LSE
  // and delta; barriers.
  EXPECT_EQ(tall.shared_bytes, 2 * 32768u + 6 * 20480 + 40960 + 2 * 640 + 256);
  EXPECT_EQ(tall.shared_bytes, 230'912u);
  EXPECT_LE(tall.shared_bytes, kSharedBytes);

  const auto changed = [&](auto&& change) {
    BackwardFacts other = facts;
    change(other);
    return backward_config(other).shape;
  };
  using Facts = BackwardFacts;
  EXPECT_EQ(changed([](Facts& f) { f.d = 72; }), tall.shape) << "padded to 128";
  EXPECT_EQ(changed([](Facts& f) { f.uneven = true; }), tall.shape);
  EXPECT_EQ(changed([](Facts& f) { f.max_seqlen_k = 1, f.heads = 133; }), tall.shape) << "few keys, many heads";
  EXPECT_EQ(changed([](Facts& f) { f.heads = 1, f.deterministic = true; }), tall.shape) << "few heads in order";
  EXPECT_EQ(changed([](Facts& f) { f.rows_per_key = 4095; }), backward_shape(128, Share::keys));
  EXPECT_EQ(changed([](Facts& f) { f.options = true; }), backward_shape(128, Share::keys));
  EXPECT_EQ(changed([](Facts& f) { f.heads = 1; }), backward_shape(128, Share::tiles));
  EXPECT_EQ(changed([](Facts& f) { f.d = 64; }), backward_shape(64, Share::keys));
  EXPECT_EQ(changed([](Facts& f) { f.d = 256; }), backward_shape(256, Share::columns));
}

TEST(HopperConfig, TheBackwardUsesShortTilesIfTheGpuWouldBeIdle) {
  for (const bool uneven : {false, true}) {
    const auto shape = [&](int d, std::int64_t heads, std::int64_t max_seqlen_k) {
      return backward_config({d, heads, max_seqlen_k, 132, uneven}).shape;
    };
    const std::int64_t most = uneven ? 264 : 132;
    for (const int d : {64, 128}) {
      const BackwardShape few = shape(d, 1, 64 * most), many = shape(d, 1, 64 * most + 1);
      EXPECT_EQ(few, backward_shape(d, Share::tiles));
      EXPECT_EQ(few.keys, 64);
      EXPECT_EQ(many, backward_shape(d, Share::keys));
      EXPECT_EQ(many.keys, 128);
      EXPECT_EQ(shape(d, most, 33), few);
      EXPECT_EQ(shape(d, most + 1, 33), many);
      EXPECT_EQ(shape(d - 8, 1, 1024), few);
    }
    const BackwardFacts in_order{64, 1, 1024, 132, uneven, true};
    EXPECT_EQ(backward_config(in_order).shape, backward_shape(64, Share::keys))
        << "with ordered accumulation tiles wait for each other";
    EXPECT_EQ(shape(256, 1, 64).share, Share::columns);
    EXPECT_EQ(shape(256, 1000, 4096).share, Share::columns);
  }
}

TEST(HopperConfig, TheBackwardWithOptionsNeverAlternatesTiles) {
  for (const int d : {64, 128, 256}) {
    BackwardFacts facts{.d = d, .heads = 1, .max_seqlen_k = 64, .multiprocessors = 132};
    facts.options = true;
    EXPECT_EQ(backward_config(facts).shape.share, d > 128 ? Share::columns : Share::keys) << d;
  }
}

TEST(HopperConfig, TheBackwardWithABiasPadsTo128) {
  for (const int d : {8, 64, 128}) {
    BackwardFacts facts{.d = d, .heads = 1000, .max_seqlen_k = 4096, .multiprocessors = 132};
    facts.options = facts.bias = true;
    const BackwardConfig config = backward_config(facts);
    EXPECT_EQ(config.d, 128);
    EXPECT_EQ(config.shape, backward_shape(128, Share::keys));
    EXPECT_EQ(config.shared_bytes, backward_shared_bytes(128, config.shape) + bias_shared_bytes(config.shape));
    EXPECT_LE(config.shared_bytes, 227u << 10);
  }
}

TEST(HopperConfig, TheBackwardAbove128UsesPairsOfBlocks) {
  const BackwardConfig pairs = backward_config({192, 8, 4096, 132, false});
  EXPECT_EQ(pairs.d, 256);
  EXPECT_EQ(cluster_blocks(pairs.shape), 2);
  EXPECT_EQ(pairs.shape.keys, 64);
  EXPECT_EQ(cluster_keys(pairs.shape), 128);
  // Bytes: 32768 each for K, V, two stages of Q and one of dO; 16384 for half of the other block's K; 8192 per tile of
  // P, dS and copies of dS; LSE and delta; barriers.
  EXPECT_EQ(pairs.shared_bytes, 2 * 32768u + 16384 + 3 * 32768 + 6 * 8192 + 2 * 512 + 512);
  for (const Share share : {Share::keys, Share::tiles}) {
    const BackwardShape single = backward_shape(128, share);
    EXPECT_EQ(cluster_blocks(single), 1);
    EXPECT_EQ(cluster_keys(single), single.keys);
  }
}

TEST(HopperConfig, TheBackwardGridHasWholeClusters) {
  EXPECT_EQ(backward_blocks(7, 1, 132), 7);
  EXPECT_EQ(backward_blocks(1000, 1, 132), 132);
  EXPECT_EQ(backward_blocks(0, 2, 132), 0);
  EXPECT_EQ(backward_blocks(1, 2, 132), 2);
  EXPECT_EQ(backward_blocks(7, 2, 132), 8);
  EXPECT_EQ(backward_blocks(1000, 2, 132), 132);
  EXPECT_EQ(backward_blocks(1000, 2, 131), 130) << "whole clusters only";
  EXPECT_EQ(backward_blocks(1000, 2, 1), 2);
}

TEST(HopperConfig, TheForwardLoopIsRotatedAtHeadDimensions128And256) {
  for (const ForwardRule& rule : kForwardRules) {
    const bool faster = rule.dims.d == rule.dims.dv && (rule.dims.d == 128 || rule.dims.d == 256);
    EXPECT_EQ(rotates(rule.dims, rule.shape), faster) << rule.dims.d;
  }
  for (const int d : {128, 256}) EXPECT_FALSE(rotates({d, d}, small_shape({d, d}, 64))) << d;
  EXPECT_FALSE(rotates({128, 128}, dropping_shape({128, 128})));
}

TEST(HopperConfig, CooperativeGridsLeaveAQuarterOfTheGpuFree) {
  EXPECT_EQ(most_together(132), 99);
  EXPECT_EQ(most_together(1), 0);
  EXPECT_EQ(most_together(2'000'000'000), 1'500'000'000);
}

TEST(HopperConfig, EverySequenceOfAPackedHeadMayAddATile) {
  Params p;
  p.batch = 3, p.heads_q = 4, p.heads_kv = 2, p.max_seqlen_q = 130, p.max_seqlen_k = 200, p.total_q = 130,
  p.total_k = 200;
  EXPECT_EQ(row_tiles(p, 64).of_sequence, 3);
  EXPECT_EQ(row_tiles(p, 64).all, 4 * 3 * 3);
  EXPECT_EQ(key_tiles(p, 128).all, 2 * 3 * 2);
  p.packed = true, p.total_q = 300, p.total_k = 500;
  EXPECT_EQ(row_tiles(p, 64).of_sequence, 3);
  EXPECT_EQ(row_tiles(p, 64).of_head, 4 + 3);
  EXPECT_EQ(row_tiles(p, 64).all, 4 * (4 + 3));
  EXPECT_EQ(key_tiles(p, 128).all, 2 * (3 + 3));
}

TEST(HopperConfig, SwizzleGroupsAreLargeAndOfSimilarSize) {
  EXPECT_EQ(l2_swizzle_heads(0, 100, 1000), 1);
  EXPECT_EQ(l2_swizzle_heads(7, 0, 1000), 7) << "no bytes to cache";
  EXPECT_EQ(l2_swizzle_heads(7, 5000, 1000), 1) << "one head exceeds the budget";
  EXPECT_EQ(l2_swizzle_heads(10, 100, 1000), 10);
  EXPECT_EQ(l2_swizzle_heads(11, 100, 1000), 6) << "groups of 10 and 1 would leave blocks idle";
  EXPECT_EQ(l2_swizzle_heads(15, 100, 1000), 8) << "gives groups of 8 and 7";
  EXPECT_EQ(l2_swizzle_heads(7, 100, 300), 3) << "groups of 3, 3 and 1, because groups of 2 would be a third smaller";
  EXPECT_EQ(l2_swizzle_heads(101, 100, 1000), 8) << "groups of 10 would leave a last group of 1";
  for (std::int64_t heads = 1; heads < 200; ++heads) {
    const std::int64_t l2_swizzle = l2_swizzle_heads(heads, 10, 1000),
                       last = heads - (heads - 1) / l2_swizzle * l2_swizzle;
    EXPECT_LE(l2_swizzle, 100);
    EXPECT_GE(l2_swizzle, std::min<std::int64_t>(heads, 50));
    EXPECT_GE(2 * last, l2_swizzle) << heads;
  }
}

int decode_splits(std::int64_t units, std::int64_t max_seqlen_k) {
  return decode_config({.d = 128, .dv = 128, .units = units, .max_seqlen_k = max_seqlen_k, .multiprocessors = 132})
      .splits;
}

TEST(HopperConfig, DecodeSplitsKeysOnlyToUseEveryMultiprocessor) {
  for (const int d : {64, 128}) EXPECT_LE(decode_shared_bytes(d), kSharedBytes) << d;
  EXPECT_EQ(decode_splits(128, 8192), 1);
  EXPECT_EQ(decode_splits(2048, 2048), 1);
  EXPECT_EQ(decode_splits(64, 16384), 2);
  EXPECT_EQ(decode_splits(8, 131072), 16);
  EXPECT_GT(decode_splits(140, 8192), 1) << "the second wave would have eight blocks";
  EXPECT_EQ(decode_splits(1, 33), 1);
  EXPECT_EQ(decode_config({.d = 64, .dv = 72}).d, 128);
  for (const std::int64_t units : {1, 3, 8, 100, 1000}) {
    for (const std::int64_t keys : {33, 500, 5000, 1'000'000}) {
      const int splits = decode_splits(units, keys);
      EXPECT_LE(splits, kMostSplits);
      EXPECT_LE(splits, ceil_div(keys, 64)) << "a split without keys";
    }
  }
}

TEST(HopperConfig, EveryFp32ShapeFitsTheGpu) {
  for (const auto& [d, shape] : kFp32Rules) {
    EXPECT_LE(fp32_shared_bytes(d, shape), kSharedBytes) << d;
    EXPECT_LE(shape.splitters * splitter_registers(shape) + shape.consumers * consumer_registers(shape), 512) << d;
    EXPECT_EQ(shape.keys % piece_rows(d, shape), 0) << d;
    EXPECT_EQ(rows_of(shape) % piece_rows(d, shape), 0) << d;
  }
}

TEST(HopperConfig, TheFp32BackwardFitsTheGpu) {
  for (int d = 4; d <= kMostFp32BackwardDim; d += 4) {
    const BackwardConfig config = fp32_backward_config(d);
    EXPECT_EQ(config.d, d <= 64 ? 64 : 128);
    EXPECT_LE(config.shared_bytes, kSharedBytes) << d;
  }
}

TEST(HopperConfig, EveryFp32ProblemHasTiles) {
  for (int d = 4; d <= kMostFp32Dim; d += 4) {
    for (const int dv : {4, 64, 68, 128}) {
      const Fp32Config config = fp32_config(facts_of(d, dv, 1000, 1000, 1000, false));
      EXPECT_GT(config.shape.consumers, 0) << d;
      EXPECT_EQ(config.d, std::max(d, dv) <= 64 ? 64 : 128);
      EXPECT_EQ(config.splits, 1) << "keys are not split on a full GPU";
    }
  }
  EXPECT_GT(fp32_config(facts_of(64, 64, 8, 128, 65536, false)).splits, 1);
}

}  // namespace
}  // namespace strobe::cuda::sm90
