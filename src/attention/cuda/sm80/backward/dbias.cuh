// The gradient of a bias that several batches, heads or rows share: a block owns a tile of dbias and computes the
// gradients of scores anew for all that share it, or for a part of them where dbias has too few tiles to fill the card.
// Always in the same order.
#pragma once

#include "attention/cuda/device/copy.cuh"
#include "attention/cuda/sm80/backward/launch.h"
#include "attention/cuda/sm80/backward/scores.cuh"

namespace strobe::cuda::sm80 {

struct DbiasArgs {
  BackwardArgs backward;
  std::int32_t row_tiles = 1;  // of dbias
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
  // What shares this tile, and the part of it that is this block's.
  const auto range = [](int size, int all, int at) { return size < all ? Range{0, all} : Range{at, at + 1}; };
  const Range batches = range(shape.batch, p.batch, bias_batch);
  const Range heads = range(shape.heads, p.heads_q, bias_head);
  const bool one_row = shape.rows < p.max_q;
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
    const Sequence sequence(p, b);
    if (first_key >= sequence.k_length) continue;
    const Keys rows = sequence.rows_of(first_key, min(first_key + kShape.keys, sequence.k_length) - 1);
    const int first_row = tile * kShape.rows;
    if (first_row >= rows.hi || first_row + kShape.rows <= rows.lo) continue;
    const auto load_rows = [&](const Tensor& tensor, std::uint32_t to, int columns) {
      const Rows<T> from = rows_at<T>(tensor, head_offset(tensor, b, head, sequence.q_begin), columns);
      const TileWalk<T, kShape.rows, kD, kThreads, true> walk(from, first_row);
      walk.load(to, sequence.q_length - first_row);
    };
    const auto load_keys = [&](const Tensor& tensor, std::uint32_t to, int columns) {
      const Rows<T> from = rows_at<T>(tensor, head_offset(tensor, b, head / p.group, sequence.k_begin), columns);
      const TileWalk<T, kShape.keys, kD, kThreads, true> walk(from, first_key);
      walk.load(to, sequence.k_length - first_key);
    };
    load_rows(p.q, s_q, p.d);
    load_rows(p.d_o, s_do, p.dv_dim);
    load_keys(p.k, s_k, p.d);
    load_keys(p.v, s_v, p.dv_dim);
    copy_async_commit();
    copy_async_wait<0>();
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
  // One row for all: over this warp's rows first, then over the warps.
  const std::uint32_t s_sums = shared_base();  // [warps along the rows][keys] fp32
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
