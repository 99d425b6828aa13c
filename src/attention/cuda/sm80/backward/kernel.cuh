// flash2's backward with mma.sync and cp.async. A block owns a key tile of one KV head and loops over the row tiles
// that see it, for every query head of the group. The block keeps dK and dV in registers and accumulates dQ in global
// memory in fp32. It recomputes scores and probabilities from LSE. launch.cpp calls BackwardKernels, defined at the
// end.
#pragma once

#include "attention/cuda/device/copy.cuh"
#include "attention/cuda/device/dq_tiles.cuh"
#include "attention/cuda/device/sequence.cuh"
#include "attention/cuda/launch_kernel.cuh"
#include "attention/cuda/sm80/backward/sums.cuh"

namespace strobe::cuda::sm80 {

// Key tile of a block. With `deterministic` a work counter assigns the tiles. The blocks of a head then start in the
// order of their dQ additions, whatever order the hardware starts blocks in. If keys are bounded on the right (causal),
// the last key tile starts first, because only the last rows see it.
struct BackwardPlace {
  int b, head, tile;  // head: KV head

  __device__ __forceinline__ BackwardPlace(const BackwardArgs& args, unsigned index) {
    tile = static_cast<int>(index % static_cast<unsigned>(args.key_tiles));
    if (args.deterministic && args.params.window_right >= 0) tile = args.key_tiles - 1 - tile;
    index /= static_cast<unsigned>(args.key_tiles);
    head = static_cast<int>(index % static_cast<unsigned>(args.params.heads_kv));
    b = static_cast<int>(index / static_cast<unsigned>(args.params.heads_kv));
  }
};

// Stores elements of dbias that only this block contributes to, or adds to elements that several blocks share
// (DbiasBy).
template <class Tiles>
__device__ __forceinline__ void store_dbias(const Tiles& scores, const BackwardArgs& args,
                                            const PaddedSequence& sequence, int b, int head) {
  const Tensor& to = args.params.dbias;
  float* dbias = static_cast<float*>(to.data) + b * to.batch + head * to.head;  // shared dimensions have stride 0
  const bool added = args.dbias_by == DbiasBy::added;
  const auto aligned = [&](int floats) {
    return reinterpret_cast<std::uintptr_t>(dbias) % (floats * sizeof(float)) == 0 && to.row % floats == 0;
  };
  const bool whole = scores.first_row + Tiles::kShape.rows <= sequence.seqlen_q &&
                     scores.first_key + Tiles::kShape.keys <= sequence.seqlen_k;
  if constexpr (kReductionIsVector) {
    if (added && whole && aligned(4)) {
      for_each_quad(scores.ds, [&](int m, int n, int row, int column, const float(&four)[4]) {
        reduce_add(dbias + (scores.row_of(m, 0) + row) * to.row + scores.key_of(n, 0) + column, four);
      });
      return;
    }
  }
  const bool pairs = aligned(2);
#pragma unroll
  for (int m = 0; m < Tiles::kMt; ++m) {
#pragma unroll
    for (int n = 0; n < Tiles::kNt; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int i = scores.row_of(m, e), j = scores.key_of(n, e);
        if (i >= sequence.seqlen_q || j >= sequence.seqlen_k) continue;
        float* at = dbias + i * to.row + j;
        if (added) {
          reduce_add(at, scores.ds[m][n][e]);
        } else if (!pairs || (e % 2 == 0 && j + 1 >= sequence.seqlen_k)) {
          *at = scores.ds[m][n][e];
        } else if (e % 2 == 0) {
          *reinterpret_cast<float2*>(at) = make_float2(scores.ds[m][n][e], scores.ds[m][n][e + 1]);
        }
      }
    }
  }
}

template <class T, int kD, BackwardKind kKind>
__global__ void __launch_bounds__(kBackwardShape<T, kD, kKind>.warps * 32, 1)
    backward_kernel(const __grid_constant__ BackwardArgs args) {
  constexpr BackwardShape kShape = kBackwardShape<T, kD, kKind>;
  constexpr bool kGeneral = kKind == BackwardKind::general;
  using Tiles = Scores<T, kD, kKind>;
  constexpr int kThreads = kShape.warps * kWarpLanes;
  constexpr int kRows = kShape.rows, kKeys = kShape.keys;
  // Tile of one warp in the matmuls of dK and dV, and of dQ.
  constexpr int kGradKeys = kKeys / kShape.gradient_warps, kGradD = kD * kShape.gradient_warps / kShape.warps;
  constexpr int kDqRows = kRows / kShape.dq_warps, kDqD = kD * kShape.dq_warps / kShape.warps;
  constexpr bool kGradApart = (kGradD & (kGradD - 1)) == 0, kDqApart = (kDqD & (kDqD - 1)) == 0;
  constexpr int kRowBytes = kTileBytes<T, kRows, kD>, kKeyBytes = kTileBytes<T, kKeys, kD>;
  const BackwardParams& p = args.params;
  if (is_left_to_others<T>(args)) return;

  const std::uint32_t s_k = shared_base();                                               // [keys][kD]
  const std::uint32_t s_v = s_k + kKeyBytes;                                             // [keys][kD]
  const std::uint32_t s_q = s_v + kKeyBytes;                                             // [stages][rows][kD]
  const std::uint32_t s_do = s_q + static_cast<std::uint32_t>(args.stages) * kRowBytes;  // [stages][rows][kD]
  const std::uint32_t s_p = s_do + static_cast<std::uint32_t>(args.stages) * kRowBytes;  // [rows][keys]
  const std::uint32_t s_ds = s_p + kTileBytes<T, kRows, kKeys>;                          // [rows][keys]
  const std::uint32_t s_bias = s_ds + kTileBytes<T, kRows, kKeys>;                       // [warps][score tile]
  constexpr int kPieces = kShape.warps / kShape.score_warps;
  const GroupScales<kRows, kKeys, kPieces> scales(s_bias);  // kernels with scales have no bias tile

  unsigned block = blockIdx.x;
  if (args.deterministic) {
    if (threadIdx.x == 0) store_shared(s_k, take_work_index(args.work_counter));
    block_sync();
    block = load_shared(s_k);
    block_sync();
  }
  const BackwardPlace place(args, block);
  const PaddedSequence sequence(p, place.b);
  const int first_key = place.tile * kKeys;
  const int keys_written = sequence.keys_written(p) - first_key;
  if (keys_written <= 0) return;

  // Rows that use these keys, and their tiles [tile_begin, tile_end).
  Keys rows{0, 0};
  int tile_begin = 0, tile_end = 0;
  if (first_key < sequence.seqlen_k) {
    rows = sequence.rows_of(first_key, min(first_key + kKeys, sequence.seqlen_k) - 1);
    if (rows.lo < rows.hi) {
      tile_begin = rows.lo / kRows;
      tile_end = (rows.hi + kRows - 1) / kRows;
    }
  }

  float dk[kGradKeys / 16][kGradD / 8][4], dv[kGradKeys / 16][kGradD / 8][4];
  clear(dk);
  clear(dv);
  const int warp = warp_index();
  const int grad_key = warp % kShape.gradient_warps * kGradKeys, grad_column = warp / kShape.gradient_warps * kGradD;

  if (tile_begin < tile_end) {
    const auto rows_of = [&](const Tensor& tensor, int head, int columns) {
      return rows_at<T>(tensor, head_offset(tensor, place.b, head, sequence.q_begin), columns);
    };
    const auto keys_of = [&](const Tensor& tensor, int columns) {
      return rows_at<T>(tensor, head_offset(tensor, place.b, place.head, sequence.k_begin), columns);
    };
    const auto load_keys = [&] {
      const int valid = sequence.seqlen_k - first_key;
      const Rows<T> k = keys_of(p.k, p.d), v = keys_of(p.v, p.dv_dim);
      if constexpr (kIsScaled<T>) {
        const Keys used = sequence.some(0, sequence.seqlen_q - 1);
        load_groups<T, kKeys, kD, kShape.warps>(k, v, first_key, {used.lo - first_key, used.hi - first_key}, s_k, s_v,
                                                scales.k);
      } else {
        TileWalk<T, kKeys, kD, kThreads, kGeneral>(k, first_key).load(s_k, valid);
        TileWalk<T, kKeys, kD, kThreads, kGeneral>(v, first_key).load(s_v, valid);
      }
    };
    const auto load_rows = [&](std::uint32_t stage, int head, int row_tile) {
      const int first = row_tile * kRows, valid = sequence.seqlen_q - first;
      const Rows<T> q = rows_of(p.q, head, p.d), d_o = rows_of(p.d_o, head, p.dv_dim);
      if constexpr (kIsScaled<T>) {
        load_groups<T, kRows, kD, kShape.warps>(q, d_o, first, {rows.lo - first, rows.hi - first}, s_q, s_do, scales.q);
      } else {
        TileWalk<T, kRows, kD, kThreads, kGeneral>(q, first).load(s_q + stage, valid);
        TileWalk<T, kRows, kD, kThreads, kGeneral>(d_o, first).load(s_do + stage, valid);
      }
    };
    const int first_head = place.head * p.group;
    load_keys();
    load_rows(0, first_head, tile_begin);
    const auto load_bias = [&](int head, int row_tile, int part) {
      if constexpr (Tiles::kBiasTile) {
        const Tiles next(row_tile, first_key, part);
        Tiles::bias_part(s_bias, part)
            .load(BiasRows(p, place.b, head), next.first_row + next.row, first_key + next.key, sequence);
      }
    };
    const bool bias_tile = Tiles::kBiasTile && p.bias.data;
    if (bias_tile) {
      for (int part = 0; part < kShape.score_parts; ++part) load_bias(first_head, tile_begin, part);
    }
    copy_async_commit();
    if constexpr (!kIsScaled<T>) Tiles::clear_padding(sequence, first_key, s_k, s_v);  // else load_groups() did

    const int dq_row = warp % kShape.dq_warps * kDqRows, dq_column = warp / kShape.dq_warps * kDqD;
    std::uint32_t stage = 0;         // byte offset of this iteration's stage
    std::uint32_t* added = nullptr;  // semaphore of the previous dQ tile, not yet released
    std::uint32_t added_index = 0;
    int head = first_head, row_tile = tile_begin;
    for (int left = p.group * (tile_end - tile_begin); left > 0; --left) {
      int next_head = head, next_tile = row_tile + 1;
      if (next_tile == tile_end) {
        next_tile = tile_begin;
        ++next_head;
      }
      copy_async_wait<0>();
      block_sync();
      if (args.stages == 2 && left > 1) {
        load_rows(stage ^ kRowBytes, next_head, next_tile);
      }
      copy_async_commit();

      // Computes probabilities and score gradients.
      const auto score_part = [&](int part) {
        Tiles scores(row_tile, first_key, part);
        const ScoreTiles tiles{s_q + stage, s_k,      s_do + stage, s_v,     Tiles::bias_part(s_bias, part).tile,
                               scales.q,    scales.k, scales.d_o,   scales.v};
        scores.compute(args, sequence, place.b, head, tiles, NoWeights(), [&] {
          if (args.dbias_by == DbiasBy::stored || args.dbias_by == DbiasBy::added) {
            store_dbias(scores, args, sequence, place.b, head);
          }
        });
        if (bias_tile && left > 1) {
          warp_sync();
          load_bias(next_head, next_tile, part);
          copy_async_commit();
        }
        if constexpr (kIsScaled<T>) {
          const std::uint32_t at = scales.offset(scores.row / kGroupRows, scores.key / Tiles::kScoreKeys);
          scale_groups(scores.weight, scales.probabilities + at, scales.offset(1, 0));
          scale_groups(scores.ds, scales.gradients + at, scales.offset(1, 0));
        }
        store_accumulators<T, kRows, kKeys>(s_p, scores.row, scores.key, scores.weight);
        store_accumulators<T, kRows, kKeys>(s_ds, scores.row, scores.key, scores.ds);
      };
      if constexpr (kShape.score_parts == 1) {
        score_part(0);
      } else {
#pragma unroll 1
        for (int part = 0; part < kShape.score_parts; ++part) score_part(part);
      }
      block_sync();
      if (args.deterministic && added && threadIdx.x == 0)
        release(added, added_index + 1);  // all warps have issued their additions to that dQ tile
      const std::int64_t tile_index = row_tile_index(args, sequence, place.b, head, row_tile, kRows);
      std::uint32_t seen = 0;
      if (args.deterministic) {  // loaded early, so that three matmuls hide the latency
        added = args.dq_semaphore + tile_index;
        const PaddedSequence padded(sequence, p.first_keys, place.b);  // read again to save a register
        added_index = dq_add_index<kRows, kKeys>(padded, row_tile, place.tile);
        seen = watch(added);
      }

      // Accumulates dV, dK and dQ.
      const GradientUnits<kIsScaled<T>, kRows, kGradKeys> dv_units(scales, scales.d_o, scales.probabilities, grad_key,
                                                                   Tiles::kScoreKeys);
      add_mma_tiles<T, kRows>(dv, LeftOf<T, kRows, kKeys, Stored::transposed>(s_p, 0, grad_key),
                              RightOf<T, kRows, kD, Stored::transposed, kGradApart>(s_do + stage, 0, grad_column),
                              dv_units);
      const GradientUnits<kIsScaled<T>, kRows, kGradKeys> dk_units(scales, scales.q, scales.gradients, grad_key,
                                                                   Tiles::kScoreKeys);
      add_mma_tiles<T, kRows>(dk, LeftOf<T, kRows, kKeys, Stored::transposed>(s_ds, 0, grad_key),
                              RightOf<T, kRows, kD, Stored::transposed, kGradApart>(s_q + stage, 0, grad_column),
                              dk_units);
      float dq[kDqRows / 16][kDqD / 8][4];
      const DqUnits<kIsScaled<T>, kDqRows, kKeys> dq_units(scales, dq_row, Tiles::kScoreKeys);
      mma_tiles<T, kKeys>(dq, LeftOf<T, kRows, kKeys, Stored::plain>(s_ds, dq_row, 0),
                          RightOf<T, kKeys, kD, Stored::transposed, kDqApart>(s_k, 0, dq_column), From::zero, dq_units);
      if (args.deterministic) {
        while (static_cast<int>(seen - added_index) < 0) seen = watch(added);
      }
      float* sum = args.dq_sum + tile_index * (kRows * kD);
#pragma unroll
      for (int m = 0; m < kDqRows / 16; ++m) {
#pragma unroll
        for (int n = 0; n < kDqD / 8; ++n) add_to_sum<kThreads>(sum, m * (kDqD / 8) + n, dq[m][n]);
      }

      if (args.stages == 2) {
        stage ^= kRowBytes;
      } else if (left > 1) {
        block_sync();
        load_rows(0, next_head, next_tile);
        copy_async_commit();
      }
      head = next_head;
      row_tile = next_tile;
    }
    block_sync();
    if (args.deterministic && threadIdx.x == 0) release(added, added_index + 1);
  }

  // Stores dK and dV; keys past the sequence length get zeros.
#pragma unroll
  for (int m = 0; m < kGradKeys / 16; ++m) {
#pragma unroll
    for (int n = 0; n < kGradD / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const bool valid = first_key + grad_key + m * 16 + e / 2 * 8 + lane_index() / 4 < sequence.seqlen_k;
        dk[m][n][e] = valid ? dk[m][n][e] * p.scale : 0;
        dv[m][n][e] = valid ? dv[m][n][e] : 0;
      }
    }
  }
  const auto rows_to = [&](const Tensor& tensor, int columns) {
    return rows_at<T>(tensor, head_offset(tensor, place.b, place.head, sequence.k_begin + first_key), columns);
  };
  const auto row_of_dk = [&](int row) { return row * p.dk.row; };
  const auto row_of_dv = [&](int row) { return row * p.dv.row; };
  if constexpr (!kIsFp32<T>) {  // through the tiles of K and V in shared memory, so that each store is a 16-byte vector
    store_accumulators<T, kKeys, kD>(s_k, grad_key, grad_column, dk);
    store_accumulators<T, kKeys, kD>(s_v, grad_key, grad_column, dv);
    block_sync();
    const int thread = static_cast<int>(threadIdx.x);
    store_tile<T, kKeys, kD, kThreads, kGeneral>(rows_to(p.dk, p.d), s_k, thread, keys_written, row_of_dk);
    store_tile<T, kKeys, kD, kThreads, kGeneral>(rows_to(p.dv, p.dv_dim), s_v, thread, keys_written, row_of_dv);
  } else {
    store_rows(rows_to(p.dk, p.d), dk, grad_key, grad_column, keys_written, row_of_dk);
    store_rows(rows_to(p.dv, p.dv_dim), dv, grad_key, grad_column, keys_written, row_of_dv);
  }
}

// Scales and rounds the fp32 sum of dQ and stores it in the caller's rows. One block per row tile; threads map to
// accumulators as in backward_kernel.
template <class T, int kD, BackwardKind kKind>
__global__ void __launch_bounds__(kBackwardShape<T, kD, kKind>.warps * 32)
    round_dq_kernel(const __grid_constant__ BackwardArgs args) {
  constexpr BackwardShape kShape = kBackwardShape<T, kD, kKind>;
  constexpr int kThreads = kShape.warps * kWarpLanes;
  constexpr int kDqRows = kShape.rows / kShape.dq_warps, kDqD = kD * kShape.dq_warps / kShape.warps;
  const BackwardParams& p = args.params;
  if (is_left_to_others<T>(args)) return;
  const auto [tile, head, b] = row_tile_of_block(args);
  const PaddedSequence sequence(p, b);
  const int first_row = tile * kShape.rows;
  const int rows_written = sequence.rows_written(p) - first_row;
  if (rows_written <= 0) return;

  const float* sum = args.dq_sum + row_tile_index(args, sequence, b, head, tile, kShape.rows) * (kShape.rows * kD);
  const int row = warp_index() % kShape.dq_warps * kDqRows, column = warp_index() / kShape.dq_warps * kDqD;
  float dq[kDqRows / 16][kDqD / 8][4];
#pragma unroll
  for (int m = 0; m < kDqRows / 16; ++m) {
#pragma unroll
    for (int n = 0; n < kDqD / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const bool valid = first_row + row + m * 16 + e / 2 * 8 + lane_index() / 4 < sequence.seqlen_q;
        const int at = sum_offset<kThreads>(m * (kDqD / 8) + n, e, static_cast<int>(threadIdx.x));
        dq[m][n][e] = valid ? sum[at] * p.scale : 0;
      }
    }
  }
  const Rows<T> to = rows_at<T>(p.dq, head_offset(p.dq, b, head, sequence.q_begin + first_row), p.d);
  const auto row_offset = [&](int r) { return r * p.dq.row; };
  if constexpr (!kIsFp32<T>) {
    const std::uint32_t s_dq = shared_base();  // [rows][kD]
    store_accumulators<T, kShape.rows, kD>(s_dq, row, column, dq);
    block_sync();
    store_tile<T, kShape.rows, kD, kThreads, kKind == BackwardKind::general>(to, s_dq, static_cast<int>(threadIdx.x),
                                                                             rows_written, row_offset);
  } else {
    store_rows(to, dq, row, column, rows_written, row_offset);
  }
}

// True for head dimensions that have general kernels (config.h).
template <class T, int kD>
inline constexpr bool kHasGeneral = kD == 64 || kD == 128 || kD == 256 || (kD == 32 && !kIsFp32<T>);

// Calls start.operator()<T>() with the element type T of `dtype`.
template <class Start>
void with_type(DType dtype, Start&& start) {
  switch (dtype) {
    case DType::fp16: return start.template operator()<Fp16>();
    case DType::bf16: return start.template operator()<Bf16>();
    case DType::fp32: return start.template operator()<Fp32>();
  }
}

template <int kD>
void BackwardKernels<kD>::launch_tiles(const BackwardLaunch& launch) {
  const BackwardArgs& args = launch.args;
  const BackwardParams& p = args.params;
  const auto start = [&]<class T, BackwardKind kKind>() {
    constexpr BackwardShape kShape = backward_shape(kD, kKind, kSplitFormat<T>);
    constexpr int kThreads = kShape.warps * kWarpLanes;
    launch_kernel(backward_kernel<T, kD, kKind>,
                  {"flash2 backward", std::int64_t{p.batch} * p.heads_kv * args.key_tiles, kThreads,
                   launch.config.shared_bytes, launch.stream},
                  args);
    launch_kernel(round_dq_kernel<T, kD, kKind>,
                  {"flash2 backward, dQ", std::int64_t{p.batch} * p.heads_q * args.row_tiles, kThreads,
                   !kIsFp32<T> ? static_cast<std::size_t>(kShape.rows * kD * 2) : 0, launch.stream},
                  args);
  };
  const bool plain = launch.config.kind == BackwardKind::plain;
  with_type(launch.dtype, [&]<class T>() {
    if constexpr (!kIsFp32<T>) {
      if (plain) return start.template operator()<T, BackwardKind::plain>();
    } else if constexpr (kD == 32 || kD == 64) {
      if (plain && launch.config.split_format == SplitFormat::rounded)
        return start.template operator()<Tf32, BackwardKind::plain>();
      if (plain) return start.template operator()<Fp32Scaled, BackwardKind::plain>();
    }
    if constexpr (!kIsFp32<T> && (kD == 64 || kD == 128)) {
      if (launch.config.kind == BackwardKind::options) return start.template operator()<T, BackwardKind::options>();
    }
    if constexpr (kHasGeneral<T, kD>) start.template operator()<T, BackwardKind::general>();
  });
}

// Arguments for a kernel whose tiles are those of `shape` instead of the plan's.
inline BackwardArgs with_tiles(BackwardArgs args, const BackwardShape& shape) {
  args.row_tiles = (args.params.max_seqlen_q + shape.rows - 1) / shape.rows;
  args.key_tiles = (args.params.max_seqlen_k + shape.keys - 1) / shape.keys;
  return args;
}

// Shared memory of a kernel with one tile each of Q, dO, K and V.
template <class T, int kD>
constexpr std::size_t four_tiles(const BackwardShape& shape) {
  return static_cast<std::size_t>(2 * kTerms<T> * kD) * (2 * shape.rows + 2 * shape.keys);
}

template <int kD>
void BackwardKernels<kD>::launch_row_sums(const BackwardLaunch& launch) {
  const BackwardParams& p = launch.args.params;
  with_type(launch.dtype, [&]<class T>() {
    if constexpr (kHasGeneral<T, kD> || kD == 32) {  // plain fp32 problems of head dimension 32 use this kernel too
      constexpr BackwardShape kShape = backward_shape(kD, BackwardKind::general, kSplitFormat<T>);
      const BackwardArgs args = with_tiles(launch.args, kShape);
      launch_kernel(row_sums_kernel<T, kD>,
                    {"flash2 backward, row sums", std::int64_t{p.batch} * p.heads_q * args.row_tiles,
                     kShape.warps * kWarpLanes, four_tiles<T, kD>(kShape), launch.stream},
                    args);
    }
  });
}

template <int kD>
void BackwardKernels<kD>::launch_dbias(const BackwardLaunch& launch) {
  with_type(launch.dtype, [&]<class T>() {
    if constexpr (kHasGeneral<T, kD>) {
      constexpr BackwardShape kShape = backward_shape(kD, BackwardKind::general, kSplitFormat<T>);
      const DbiasShape& shape = launch.args.dbias;
      const DbiasArgs args{with_tiles(launch.args, kShape), (shape.rows + kShape.rows - 1) / kShape.rows};
      const std::int64_t tiles = std::int64_t{shape.batch} * shape.heads * args.row_tiles * args.backward.key_tiles;
      launch_kernel(dbias_kernel<T, kD>,
                    {"flash2 backward, dbias", tiles * launch.args.dbias_parts, kShape.warps * kWarpLanes,
                     four_tiles<T, kD>(kShape), launch.stream},
                    args);
    }
  });
}

}  // namespace strobe::cuda::sm80
