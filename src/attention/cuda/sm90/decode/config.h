// Configuration of the Hopper decode kernel: constexpr functions of the problem and the GPU, used by the kernel, its
// launch, `strobe explain` and tests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "attention/cuda/splits.h"
#include "core/divide.h"

namespace strobe::cuda::sm90 {

inline constexpr int kDecodeRows = 16;      // rows of a unit: the rows of one MMA
inline constexpr int kDecodeWarps = 8;      // consumer warps; one producer warp follows them
inline constexpr int kDecodeWarpKeys = 32;  // keys of a key tile per consumer warp
inline constexpr int kDecodeStages = 5;     // pipeline stages, each a key tile of K and of V
inline constexpr int kDecodeFullBarriers = 2 * kDecodeStages;
inline constexpr int kMostDecodeDim = 128;

// Keys per tile. A stage of K and V has 32 KB for both head dimensions.
constexpr int decode_keys(int d) { return d <= 64 ? 128 : 64; }

// Consumer warps that share a tile. Such teams take the block's tiles in turn.
constexpr int decode_tile_warps(int d) { return decode_keys(d) / kDecodeWarpKeys; }
constexpr int decode_teams(int d) { return kDecodeWarps / decode_tile_warps(d); }

// Columns of a row in the buffer in which warps merge their outputs. The padding avoids bank conflicts.
constexpr int decode_merge_columns(int d) { return d + 8; }

// Bytes of shared memory, as laid out by DecodeMemory (kernel.cuh).
constexpr std::size_t decode_shared_bytes(int d) {
  const int tiles = kDecodeStages * 2 * decode_keys(d) * d * 2;
  const int merge = kDecodeWarps * (8 * decode_merge_columns(d) + 2 * kDecodeRows) * 4;
  return static_cast<std::size_t>(tiles + merge + 8 * (kDecodeFullBarriers + kDecodeStages));
}

struct DecodeFacts {
  int d = 0, dv = 0;
  std::int64_t units = 0;  // sequences times heads of K and V
  std::int64_t max_seqlen_k = 0;
  int multiprocessors = 1;
};

struct DecodeConfig {
  int d = 0;       // padded head dimension
  int splits = 1;  // split-K: blocks per unit
};

// Time of a call in key tiles per multiprocessor. The memory bounds it, unless one multiprocessor has more than its
// share: it can read at most a tenth faster than the average. An item takes the time of four more tiles to start and
// to merge its warps. A launch that combines splits takes that of three.
constexpr double decode_cost(const DecodeFacts& facts, std::int64_t tiles, int splits) {
  const double all = static_cast<double>(facts.units * tiles) / facts.multiprocessors;
  const std::int64_t items = ceil_div(facts.units * splits, facts.multiprocessors);
  const double longest = static_cast<double>(items * (ceil_div(tiles, splits) + 4)) / 1.1;
  return std::max(all, longest) + (splits > 1 ? 3 : 0);
}

constexpr DecodeConfig decode_config(const DecodeFacts& facts) {
  DecodeConfig config{.d = std::max(facts.d, facts.dv) <= 64 ? 64 : kMostDecodeDim};
  const std::int64_t tiles = ceil_div(facts.max_seqlen_k, decode_keys(config.d));
  double least = decode_cost(facts, tiles, 1);
  for (int most = 2; most <= std::min(tiles, kMostSplits); ++most) {
    const int splits = splits_with_tiles(tiles, most);
    const double cost = decode_cost(facts, tiles, splits);
    if (cost < least) least = cost, config.splits = splits;
  }
  return config;
}

}  // namespace strobe::cuda::sm90
