// Kernels that kernel.cuh launches. row_sums_kernel computes two sums per row if O and LSE do not give them exactly
// enough. dbias_kernel computes a dbias that several sequences, heads or rows share.
//
// delta, the sum of dO * O: O is rounded. The error of delta matters in short sequences and with dropout. In 16 bits
// only rows with few keys, a large LSE or a bias need the exact delta, because one probability may outweigh all others.
//
// Sum of probabilities, exp(score - LSE): LSE is rounded. If all keys of a row have a bias of -FLT_MAX, for example, an
// fp32 LSE does not contain the number of keys. The rounding affects gradients if LSE is large or the probabilities are
// uneven. Only tiles with such rows recompute their scores. In fp32 row_sums_kernel also computes delta of the other
// rows.
#pragma once

#include "attention/cuda/device/copy.cuh"
#include "attention/cuda/device/delta.cuh"
#include "attention/cuda/sm80/backward/launch.h"
#include "attention/cuda/sm80/backward/scores.cuh"

namespace strobe::cuda::sm80 {

// True if the gradients of a row show the rounding of its LSE. rows: length of its sequence; keys: number of its keys.
// 16-bit gradients show it once the rounding error of LSE may reach 2^-11. In fp32 other rounding errors hide it if
// there are many rows and keys and LSE is near that of even probabilities.
template <class T>
__device__ __forceinline__ bool lse_rounding_shows(float lse, int rows, int keys) {
  if (lse == kMinusInfinity) return false;
  if constexpr (!kIsFp32<T>) return fabsf(lse) >= 8192;
  return rows <= 32 || !weights_are_even(lse, keys);
}

inline constexpr float kEvenLse = 16;  // below this |LSE| no probability of a row of random scores comes near 1

// True if some row of [first, last] has few keys. The number of keys per row first increases and then decreases, so it
// is smallest at one of the two ends.
__device__ __forceinline__ bool has_few_keys(const PaddedSequence& sequence, int first, int last) {
  const Keys a = sequence.allowed(first), b = sequence.allowed(last);
  return min(a.hi - a.lo, b.hi - b.lo) <= kFewKeys;
}

// Kahan sum of partial sums: it compensates the error of each addition.
struct LongSum {
  float total = 0, error = 0;

  __device__ __forceinline__ void add(float part) {
    const float y = part - error;
    const float t = total + y;
    error = (t - total) - y;
    total = t;
  }
};

// This lane's partial sum of dO * O over the columns of row i.
template <int kLanes>
__device__ __forceinline__ float part_of_delta(const BackwardParams& p, const PaddedSequence& sequence, int b, int head,
                                               int i) {
  const auto* o = static_cast<const float*>(p.o.data) + head_offset(p.o, b, head, sequence.q_begin + i);
  const auto* d_o = static_cast<const float*>(p.d_o.data) + head_offset(p.d_o, b, head, sequence.q_begin + i);
  float sum = 0;
#pragma unroll 8
  for (int c = static_cast<int>(threadIdx.x) % kLanes; c < p.dv_dim; c += kLanes) {
    sum = fmaf(d_o[c * p.d_o.column], o[c], sum);
  }
  return sum;
}

// Stores the statistics of row i of a sequence. index: index of the row in LSE; d_lse: gradient of its LSE.
__device__ __forceinline__ void store_facts(const BackwardArgs& args, const PaddedSequence& sequence,
                                            std::int64_t index, int i, float log2_sum, float delta, float d_lse) {
  const float lse = args.params.lse[index];
  delta = lse == kMinusInfinity ? 0 : delta - d_lse;  // no keys: 0 for any dO
  args.log2_sums[index] = log2_sum;
  args.delta[index] = delta;
  const RowWeight weight(lse, log2_sum, count_keys(args.params, sequence, i));
  args.row_facts[index] = {weight.base, weight.rest, weight.power, delta};
}

// Computes log2_sums and delta, and in fp32 row_facts. One block per row tile of a query head.
template <class T, int kD>
__global__ void __launch_bounds__(kBackwardShape<T, kD, BackwardKind::general>.warps * 32)
    row_sums_kernel(const __grid_constant__ BackwardArgs args) {
  using Tiles = Scores<T, kD, BackwardKind::general>;
  constexpr BackwardShape kShape = kBackwardShape<T, kD, BackwardKind::general>;
  constexpr int kThreads = kShape.warps * kWarpLanes;
  constexpr int kKeyWarps = kShape.warps / kShape.score_warps;
  constexpr int kMt = Tiles::kMt;
  const BackwardParams& p = args.params;
  const auto [tile, head, b] = row_tile_of_block(args);
  const PaddedSequence sequence(p, b);
  const int first_row = tile * kShape.rows;
  const int rows = min(kShape.rows, sequence.seqlen_q - first_row);
  if (rows <= 0) return;
  const std::int64_t row_index = lse_index(p, sequence, b, head, first_row);
  const int thread = static_cast<int>(threadIdx.x);

  const std::uint32_t s_q = shared_base();                          // [rows][kD]
  const std::uint32_t s_do = s_q + kTileBytes<T, kShape.rows, kD>;  // [rows][kD]
  const std::uint32_t s_k = s_do + kTileBytes<T, kShape.rows, kD>;  // [keys][kD]
  const std::uint32_t s_v = s_k + kTileBytes<T, kShape.keys, kD>;   // [keys][kD]

  // Checks if any row of the tile needs the sums. In fp32 all rows of the tile then get them.
  if (thread == 0) store_shared(s_q, 0u);
  block_sync();
  const float lse = thread < rows ? p.lse[row_index + thread] : kMinusInfinity;
  const int own_keys = count_keys(p, sequence, first_row + min(thread, rows - 1));
  const bool shows = lse_rounding_shows<T>(lse, sequence.seqlen_q, own_keys);
  const bool uneven = args.exact_delta && lse != kMinusInfinity && fabsf(lse) >= kEvenLse;
  if (shows || uneven) store_shared(s_q, 1u);
  block_sync();
  const bool needed = load_shared(s_q) != 0;
  block_sync();
  const auto d_lse_of = [&](int i) { return d_lse_at(p.d_lse, sequence, b, head, i); };
  const bool exact_delta = args.exact_delta && (kIsFp32<T> || needed || p.bias.data || p.mask.data ||
                                                has_few_keys(sequence, first_row, first_row + rows - 1));
  if (!needed && !exact_delta) {
    if constexpr (!kIsFp32<T>) {
      if (thread < rows) args.log2_sums[row_index + thread] = 0;
    } else {
      constexpr int kLanes = kThreads / kShape.rows;  // threads per row
      const int row = thread / kLanes;
      float total = row < rows ? part_of_delta<kLanes>(p, sequence, b, head, first_row + row) : 0;
#pragma unroll
      for (int step = 1; step < kLanes; step *= 2) total += shuffle_xor(total, step);
      if (row < rows && thread % kLanes == 0) {
        store_facts(args, sequence, row_index + row, first_row + row, 0, total, d_lse_of(first_row + row));
      }
    }
    return;
  }

  const auto load_rows = [&](const Tensor& tensor, std::uint32_t to, int columns) {
    const Rows<T> from = rows_at<T>(tensor, head_offset(tensor, b, head, sequence.q_begin), columns);
    const TileWalk<T, kShape.rows, kD, kThreads, true> walk(from, first_row);
    walk.load(to, sequence.seqlen_q - first_row);
  };
  const auto load_keys = [&](const Tensor& tensor, std::uint32_t to, int columns, int first_key) {
    const Rows<T> from = rows_at<T>(tensor, head_offset(tensor, b, head / p.group, sequence.k_begin), columns);
    const TileWalk<T, kShape.keys, kD, kThreads, true> walk(from, first_key);
    walk.load(to, sequence.seqlen_k - first_key);
  };
  BackwardArgs plain = args;  // without the sums, because this kernel computes them
  plain.delta = nullptr;
  plain.log2_sums = nullptr;
  plain.row_facts = nullptr;
  load_rows(p.q, s_q, p.d);
  load_rows(p.d_o, s_do, p.dv_dim);
  const Keys keys = sequence.some(first_row, first_row + rows - 1);
  LongSum probabilities[kMt][2], deltas[kMt][2];
  for (int first_key = keys.lo / kShape.keys * kShape.keys; first_key < keys.hi; first_key += kShape.keys) {
    load_keys(p.k, s_k, p.d, first_key);
    load_keys(p.v, s_v, p.dv_dim, first_key);
    copy_async_commit();
    copy_async_wait<0>();
    Tiles::clear_padding(sequence, first_key, s_k, s_v);
    block_sync();
    Tiles scores(tile, first_key);
    float weight[kMt][2] = {}, delta[kMt][2] = {};  // this tile's sums
    scores.compute(
        plain, sequence, b, head, {s_q, s_k, s_do, s_v}, [&](int m, int, int e, float w) { weight[m][e / 2] += w; },
        [&] { for_each(scores.ds, [&](int m, int n, int e) { delta[m][e / 2] += scores.ds[m][n][e]; }); });
#pragma unroll
    for (int m = 0; m < kMt; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) probabilities[m][h].add(weight[m][h]), deltas[m][h].add(delta[m][h]);
    }
    block_sync();
  }
  copy_async_commit();
  copy_async_wait<0>();
  block_sync();

  // Reduces over the lanes of a row, then over the warps that divide the keys.
  const std::uint32_t s_sums = shared_base();  // [2][kKeyWarps][rows] fp32
  const Tiles place(tile, 0);
#pragma unroll
  for (int m = 0; m < kMt; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float weight = quad_sum(probabilities[m][h].total), delta = quad_sum(deltas[m][h].total);
      const int at = warp_index() / kShape.score_warps * kShape.rows + place.row_of(m, 2 * h) - first_row;
      if (lane_index() % 4 == 0) {
        store_shared(s_sums + static_cast<std::uint32_t>(at * 4), float_to_bits(weight));
        store_shared(s_sums + static_cast<std::uint32_t>((kKeyWarps * kShape.rows + at) * 4), float_to_bits(delta));
      }
    }
  }
  block_sync();
  if (thread >= rows) return;
  float weight = 0, delta = 0;
  for (int w = 0; w < kKeyWarps; ++w) {
    const auto at = static_cast<std::uint32_t>((w * kShape.rows + thread) * 4);
    weight += bits_to_float(load_shared(s_sums + at));
    delta += bits_to_float(load_shared(s_sums + kKeyWarps * kShape.rows * 4 + at));
  }
  if (p.sinks && lse != kMinusInfinity) weight += exp2f((p.sinks[head] - lse) * kLog2E);
  const bool all = kIsFp32<T> || exact_delta;  // all rows of this tile get both sums
  const bool renormalise = lse != kMinusInfinity && (all || shows);
  const float log2_sum = renormalise ? log2f(weight) : 0;
  if (renormalise) delta /= weight;
  if constexpr (kIsFp32<T>) {
    store_facts(args, sequence, row_index + thread, first_row + thread, log2_sum, delta, d_lse_of(first_row + thread));
  } else {
    args.log2_sums[row_index + thread] = log2_sum;
    const float d_lse = lse == kMinusInfinity ? 0 : d_lse_of(first_row + thread);
    if (all) args.delta[row_index + thread] = delta - d_lse;
  }
}

// Gradient of a bias that several sequences, heads or rows share. A block owns a tile of dbias and recomputes the score
// gradients of all sequences, heads and rows that share the tile. If dbias has too few tiles to fill the GPU, several
// blocks share this work. The order of the sums is fixed.

struct DbiasArgs {
  BackwardArgs backward;
  std::int32_t row_tiles = 1;  // row tiles of dbias
};

struct Range {
  int begin, end;
  __device__ int size() const { return end - begin; }
};

template <class T, int kD>
__global__ void __launch_bounds__(kBackwardShape<T, kD, BackwardKind::general>.warps * 32)
    dbias_kernel(const __grid_constant__ DbiasArgs args) {
  using Tiles = Scores<T, kD, BackwardKind::general>;
  constexpr BackwardShape kShape = kBackwardShape<T, kD, BackwardKind::general>;
  constexpr int kThreads = kShape.warps * kWarpLanes;
  constexpr int kMt = Tiles::kMt, kNt = Tiles::kNt;
  const BackwardArgs& backward = args.backward;
  const BackwardParams& p = backward.params;
  const DbiasShape& shape = backward.dbias;
  unsigned index = blockIdx.x;
  const int part = static_cast<int>(index % backward.dbias_parts);
  index /= backward.dbias_parts;
  const int first_key = static_cast<int>(index % backward.key_tiles) * kShape.keys;
  index /= backward.key_tiles;
  const int bias_tile = static_cast<int>(index % args.row_tiles);
  index /= args.row_tiles;
  const int bias_head = static_cast<int>(index % shape.heads);
  const int bias_batch = static_cast<int>(index / shape.heads);
  // Sequences, heads and row tiles that share this tile of dbias. This block processes one part of them.
  const auto range = [](int size, int all, int at) { return size < all ? Range{0, all} : Range{at, at + 1}; };
  const Range batches = range(shape.batch, p.batch, bias_batch);
  const Range heads = range(shape.heads, p.heads_q, bias_head);
  const bool one_row = shape.rows < p.max_seqlen_q;
  const Range tiles = one_row ? Range{0, backward.row_tiles} : Range{bias_tile, bias_tile + 1};
  const std::int64_t sharing = std::int64_t{batches.size()} * heads.size() * tiles.size();
  const std::int64_t last = (part + 1) * sharing / backward.dbias_parts;

  const std::uint32_t s_q = shared_base();                          // [rows][kD]
  const std::uint32_t s_do = s_q + kTileBytes<T, kShape.rows, kD>;  // [rows][kD]
  const std::uint32_t s_k = s_do + kTileBytes<T, kShape.rows, kD>;  // [keys][kD]
  const std::uint32_t s_v = s_k + kTileBytes<T, kShape.keys, kD>;   // [keys][kD]
  float sum[kMt][kNt][4];
  clear(sum);
  for (std::int64_t unit = part * sharing / backward.dbias_parts; unit < last; ++unit) {
    const int tile = tiles.begin + static_cast<int>(unit % tiles.size());
    const int head = heads.begin + static_cast<int>(unit / tiles.size() % heads.size());
    const int b = batches.begin + static_cast<int>(unit / tiles.size() / heads.size());
    const PaddedSequence sequence(p, b);
    if (first_key >= sequence.seqlen_k) continue;
    const Keys rows = sequence.rows_of(first_key, min(first_key + kShape.keys, sequence.seqlen_k) - 1);
    const int first_row = tile * kShape.rows;
    if (first_row >= rows.hi || first_row + kShape.rows <= rows.lo) continue;
    const auto load_rows = [&](const Tensor& tensor, std::uint32_t to, int columns) {
      const Rows<T> from = rows_at<T>(tensor, head_offset(tensor, b, head, sequence.q_begin), columns);
      const TileWalk<T, kShape.rows, kD, kThreads, true> walk(from, first_row);
      walk.load(to, sequence.seqlen_q - first_row);
    };
    const auto load_keys = [&](const Tensor& tensor, std::uint32_t to, int columns) {
      const Rows<T> from = rows_at<T>(tensor, head_offset(tensor, b, head / p.group, sequence.k_begin), columns);
      const TileWalk<T, kShape.keys, kD, kThreads, true> walk(from, first_key);
      walk.load(to, sequence.seqlen_k - first_key);
    };
    load_rows(p.q, s_q, p.d);
    load_rows(p.d_o, s_do, p.dv_dim);
    load_keys(p.k, s_k, p.d);
    load_keys(p.v, s_v, p.dv_dim);
    copy_async_commit();
    copy_async_wait<0>();
    Tiles::clear_padding(sequence, first_key, s_k, s_v);
    block_sync();
    Tiles scores(tile, first_key);
    scores.compute(backward, sequence, b, head, {s_q, s_k, s_do, s_v}, NoWeights(),
                   [&] { for_each(sum, [&](int m, int n, int e) { sum[m][n][e] += scores.ds[m][n][e]; }); });
    block_sync();
  }

  float* to = static_cast<float*>(p.dbias.data) + bias_batch * p.dbias.batch + bias_head * p.dbias.head;
  std::int64_t row_stride = p.dbias.row;
  if (backward.dbias_parts > 1) {
    const std::int64_t head_of_part = (std::int64_t{part} * shape.batch + bias_batch) * shape.heads + bias_head;
    to = backward.dbias_sums + head_of_part * shape.rows * shape.keys;
    row_stride = shape.keys;
  }
  const Tiles place(bias_tile, first_key);
  if (!one_row) {
#pragma unroll
    for (int m = 0; m < kMt; ++m) {
#pragma unroll
      for (int n = 0; n < kNt; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int i = place.row_of(m, e), j = place.key_of(n, e);
          if (i < shape.rows && j < shape.keys) to[i * row_stride + j] = sum[m][n][e];
        }
      }
    }
    return;
  }
  // All rows share one row of dbias: reduces over this warp's rows, then over the warps.
  const std::uint32_t s_sums = shared_base();  // [kShape.score_warps][keys] fp32
#pragma unroll
  for (int n = 0; n < kNt; ++n) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float total = 0;
#pragma unroll
      for (int m = 0; m < kMt; ++m) total += sum[m][n][e] + sum[m][n][2 + e];
#pragma unroll
      for (int step = 4; step < kWarpLanes; step *= 2) total += shuffle_xor(total, step);
      const int at = warp_index() % kShape.score_warps * kShape.keys + place.key_of(n, e) - first_key;
      if (lane_index() < 4) store_shared(s_sums + static_cast<std::uint32_t>(at * 4), float_to_bits(total));
    }
  }
  block_sync();
  for (int j = static_cast<int>(threadIdx.x); j < kShape.keys; j += kThreads) {
    if (first_key + j >= shape.keys) break;
    float total = 0;
    for (int w = 0; w < kShape.score_warps; ++w) {
      total += bits_to_float(load_shared(s_sums + static_cast<std::uint32_t>((w * kShape.keys + j) * 4)));
    }
    to[first_key + j] = total;
  }
}

}  // namespace strobe::cuda::sm80
