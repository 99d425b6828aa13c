// flash2's forward with mma.sync and cp.async. A block owns a row tile of one head. Each warp owns 16 or 32 of the rows
// and keeps their scores, probabilities and output in registers. The loop visits key tiles from the last to the first,
// so that tiles cut by a causal mask come first. launch.cpp calls ForwardKernels, defined at the end.
#pragma once

#include "attention/cuda/device/bias_tile.cuh"
#include "attention/cuda/device/copy.cuh"
#include "attention/cuda/device/sequence.cuh"
#include "attention/cuda/device/softmax.cuh"
#include "attention/cuda/launch_kernel.cuh"
#include "attention/cuda/sm80/forward/launch.h"
#include "attention/cuda/sm80/forward/scales.cuh"

namespace strobe::cuda::sm80 {

template <class T, int kD, ForwardKind kKind>
inline constexpr ForwardShape kForwardShape = forward_shape(kD, kKind, kSplitFormat<T>);

// Tile of a block. Splits and tiles of a head have adjacent block indices, so that the head's keys stay in the L2
// cache.
struct ForwardPlace {
  int b, head;  // head: first query head of the tile
  int tile, split;

  __device__ __forceinline__ explicit ForwardPlace(const ForwardArgs& args) {
    unsigned index = blockIdx.x;
    split = static_cast<int>(index % static_cast<unsigned>(args.splits.count));
    index /= static_cast<unsigned>(args.splits.count);
    tile = static_cast<int>(index % static_cast<unsigned>(args.row_tiles));
    tile = args.row_tiles - 1 - tile;  // tiles with the most keys first under a causal mask
    index /= static_cast<unsigned>(args.row_tiles);
    const auto units = static_cast<unsigned>(args.params.heads_q / args.packed_heads);
    head = static_cast<int>(index % units) * args.packed_heads;
    b = static_cast<int>(index / units);
  }
};

// Maps tile rows to (position, head) pairs. If heads share the tile, their rows for one position are adjacent.
struct RowMap {
  int heads;  // number of heads that share the tile (packed_heads)
  __device__ __forceinline__ int position(int row) const { return heads == 1 ? row : row / heads; }
  __device__ __forceinline__ int head(int row) const { return heads == 1 ? 0 : row % heads; }
  __device__ __forceinline__ std::int64_t offset(const Tensor& tensor, int row) const {
    return heads == 1 ? row * tensor.row : position(row) * tensor.row + head(row) * tensor.head;
  }
};

// Sets scores of masked keys to -inf. allowed(i): keys that row i may use. `column` is this lane's first key.
template <int kMt, int kNt, class Allowed>
__device__ __forceinline__ void mask_scores(float (&s)[kMt][kNt][4], const Allowed& allowed, const RowMap& map,
                                            int lane_row, int column) {
#pragma unroll
  for (int m = 0; m < kMt; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const Keys keys = allowed(map.position(lane_row + m * 16 + h * 8));
#pragma unroll
      for (int n = 0; n < kNt; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int j = column + n * 8 + e;
          if (j < keys.lo || j >= keys.hi) s[m][n][2 * h + e] = kMinusInfinity;
        }
      }
    }
  }
}

template <class T, int kD, ForwardKind kKind>
__global__ void __launch_bounds__(kForwardShape<T, kD, kKind>.warps * 32, kForwardShape<T, kD, kKind>.blocks)
    forward_kernel(const __grid_constant__ ForwardArgs args) {
  constexpr ForwardShape kShape = kForwardShape<T, kD, kKind>;
  constexpr bool kOptions = kKind == ForwardKind::options || kKind == ForwardKind::general;
  constexpr bool kGeneral = kKind == ForwardKind::general;
  constexpr int kThreads = kShape.warps * kWarpLanes;
  constexpr int kWarpRows = kShape.rows / kShape.warps;
  constexpr int kMt = kWarpRows / 16;
  constexpr int kKeys = kShape.keys;
  constexpr int kKeyBytes = kTileBytes<T, kKeys, kD>;  // one tile of K or V
  constexpr bool kBiasTile = kKind == ForwardKind::options;
  const Params& p = args.params;

  const ForwardPlace place(args);
  const PaddedSequence sequence(p, place.b);
  const RowMap map{args.packed_heads};
  const int first_row = place.tile * kShape.rows;
  const int rows_written = sequence.rows_written(p) * map.heads;
  if (first_row >= rows_written) return;
  const int rows = sequence.seqlen_q * map.heads;

  // Key tiles [n_begin, n_end) of this block; keys that at least one row of the tile may use (some), and that all may
  // use (unmasked).
  int n_begin = 0, n_end = 0;
  Keys some{0, 0}, unmasked{0, 0};
  if (first_row < rows) {
    const int first = map.position(first_row);
    const int last = map.position(min(first_row + kShape.rows, rows) - 1);
    some = sequence.some(first, last);
    unmasked = sequence.all(first, last);
    if (some.lo < some.hi) {
      n_begin = some.lo / kKeys;
      n_end = (some.hi + kKeys - 1) / kKeys;
      if (args.splits.count > 1) {
        const int share = (n_end - n_begin + args.splits.count - 1) / args.splits.count;
        n_begin = min(n_end, n_begin + place.split * share);
        n_end = min(n_end, n_begin + share);
      }
    }
  }

  // As sequence.allowed(i), for the rows of this tile. some.lo includes the left padding, so that the loop needs no
  // register for sequence.first_valid.
  const auto allowed = [&](int i) -> Keys {
    const Keys keys = sequence.Sequence::allowed(i);
    return {max(keys.lo, some.lo), keys.hi};
  };

  const int head_kv = place.head / p.group;
  const Rows<T> q = rows_at<T>(p.q, head_offset(p.q, place.b, place.head, sequence.q_begin), p.d);
  const Rows<T> k = rows_at<T>(p.k, head_offset(p.k, place.b, head_kv, sequence.k_begin), p.d);
  const Rows<T> v = rows_at<T>(p.v, head_offset(p.v, place.b, head_kv, sequence.k_begin), p.dv_dim);
  const std::uint32_t s_q = shared_base();                                              // [rows][kD]
  const std::uint32_t s_k = s_q + kTileBytes<T, kShape.rows, kD>;                       // [stages][keys][kD]
  const std::uint32_t s_v = s_k + static_cast<std::uint32_t>(args.stages) * kKeyBytes;  // [stages][keys][kD]
  const Scales scales(s_v + kKeyBytes, kShape.rows, kKeys);  // only if the type has scales; there is then one stage

  const int warp_row = warp_index() * kWarpRows;
  const int lane_row = first_row + warp_row + lane_index() / 4;  // and 8, 16, 24 rows further down
  const bool warp_works = kKind != ForwardKind::small || first_row + warp_row < rows;

  float o[kMt][kD / 8][4];
  clear(o);
  OnlineSoftmax<kMt> softmax;
  RowScales<kIsScaled<T> ? kMt : 0> row_scales;  // for this lane's rows of Q
  const HeadScoreOptions options(p, place.b, place.head);
  const float score_unit = !kOptions ? p.scale : kIsFp32<T> ? 1 : options.unit;
  const float factor = score_unit * kLog2E;
  using Bias = BiasTile<T, kWarpRows, kBiasTile ? kKeys : 64>;
  const Bias bias{s_v + static_cast<std::uint32_t>(args.stages * kKeyBytes + warp_index() * Bias::kBytes)};

  if (n_begin < n_end) {
    load_tile<T, kShape.rows, kD, kThreads, kGeneral>(
        s_q, q, rows - first_row, [&](int row) { return map.offset(p.q, first_row + row); }, scales.q);
    if (kShape.q_in_registers) copy_async_commit();
    TileWalk<T, kKeys, kD, kThreads, kGeneral> k_walk(k, (n_end - 1) * kKeys), v_walk(v, (n_end - 1) * kKeys);
    int keys_left = sequence.seqlen_k - (n_end - 1) * kKeys;  // keys from the next tile to load to the sequence end
    k_walk.load(s_k, keys_left, scales.k);
    if (args.stages == 2) v_walk.load(s_v, keys_left);
    if constexpr (kBiasTile) {
      if (options.bias.data) bias.load(options.bias, first_row + warp_row, (n_end - 1) * kKeys, sequence);
    }
    copy_async_commit();

    const LeftOf<T, kShape.rows, kD, Stored::plain> q_tile(s_q, warp_row, 0);
    LeftRegisters<T, kMt, kD / 16> q_registers;
    if constexpr (kShape.q_in_registers) {
      copy_async_wait<1>();
      block_sync();
#pragma unroll
      for (int m = 0; m < kMt; ++m) {
#pragma unroll
        for (int d = 0; d < kD / 16; ++d) {
          std::uint32_t square[4];
          q_tile.load(square, m, d, 0);
#pragma unroll
          for (int e = 0; e < 4; ++e) q_registers.squares[m][d][e][0] = square[e];
        }
      }
    }

    if constexpr (kIsScaled<T>) {
      block_sync();
      row_scales.load(scales.q, warp_row + lane_index() / 4);
    }

    typename TileWalk<T, kKeys, kD, kThreads, kGeneral>::Held k_held, v_held;
    std::uint32_t stage = 0;  // byte offset of this tile's stage
    for (int n = n_end - 1; n >= n_begin; --n) {
      copy_async_wait<0>();
      block_sync();
      // Values of left padding may be NaN, and 0 times NaN is NaN. Scaled types load them as zeros.
      const auto clear_padding = [&] {
        if (kIsScaled<T> || !p.first_keys.data || n * kKeys >= some.lo) return;
        clear_rows<T, kKeys, kD, kThreads>(s_v + stage, some.lo - n * kKeys);
        block_sync();
      };
      if (args.stages == 2) clear_padding();
      if (args.stages == 2) {  // the previous iteration has read the other stage
        const std::uint32_t other = stage ^ kKeyBytes;
        keys_left += kKeys;
        k_walk.move(-1);
        v_walk.move(-1);
        if (n > n_begin) {
          k_walk.load(s_k + other, keys_left);
          v_walk.load(s_v + other, keys_left);
        }
      } else {
        // Keys that no row of the tile uses must not affect the scale of V, so they are loaded as zeros.
        v_walk.begin(v_held, s_v, keys_left - (kIsScaled<T> ? sequence.seqlen_k - some.hi : 0),
                     kIsScaled<T> ? some.lo - n * kKeys : 0);
      }
      copy_async_commit();

      const int column = n * kKeys + lane_index() % 4 * 2;
      if constexpr (kGeneral) {
        options.mask.template prefetch<kMt, kKeys / 8>(lane_row, column, sequence);
        options.template prefetch_bias<kMt, kKeys / 8>(lane_row, column, sequence);
      }
      float s[kMt][kKeys / 8][4];
      if (warp_works) {
        const RightOf<T, kKeys, kD, Stored::plain> k_tile(s_k + stage, 0, 0);
        if constexpr (kShape.q_in_registers) {
          mma_tiles<T, kD>(s, q_registers, k_tile, From::zero);
        } else {
          mma_tiles<T, kD>(s, q_tile, k_tile, From::zero);
        }
        if constexpr (kIsScaled<T>) scale_columns(s, scales.k);
      }
      if (args.stages == 1) {  // completes V; after block_sync() no warp reads K, so the next K can be loaded
        v_walk.template end<true>(v_held, s_v, scales.v);
        v_walk.move(-1);
        copy_async_wait<0>();
        block_sync();
        clear_padding();
        keys_left += kKeys;
        k_walk.move(-1);
        if (n > n_begin) k_walk.begin(k_held, s_k, keys_left);
        copy_async_commit();
      }
      if (warp_works) {
        if constexpr (kOptions) {
          NoSlopes slopes;
          options.template apply<T>(s, slopes, lane_row, column, sequence);
          if (options.bias.data) {
            if constexpr (kBiasTile) {
              bias.add(s);
              warp_sync();
              if (n > n_begin) bias.load(options.bias, first_row + warp_row, (n - 1) * kKeys, sequence);
              copy_async_commit();
            } else {
              options.template add_bias<T>(s, lane_row, column, sequence);
            }
          }
          if (kGeneral && options.mask.data) options.mask.apply(s, lane_row, column, sequence);
        }
        if (n * kKeys < unmasked.lo || (n + 1) * kKeys > unmasked.hi) mask_scores(s, allowed, map, lane_row, column);
        // No branch separates the exponentials from the matmul, so that the compiler can overlap them.
        const auto finish = [&]<bool kSubtractFirst, bool kDrop>() {
          if constexpr (kIsScaled<T>) {
            softmax.template weigh<true>(s, o, row_scales.factors(factor));
          } else {
            softmax.template weigh<kSubtractFirst>(s, o, OneFactor{factor});
          }
          if constexpr (kDrop) {
            options.drop(s, lane_row, column, [&](int m, int n, int e, bool kept) {
              if (!kept) s[m][n][e] = 0;
            });
          }
          float units[kMt][2] = {};
          if constexpr (kIsScaled<T>) take_scales_of_v(s, units, scales.v);
          LeftRegisters<T, kMt, kKeys / 16> probabilities;
          round_to_left<T>(probabilities, s);
          mma_tiles<T, kKeys>(o, probabilities, RightOf<T, kKeys, kD, Stored::transposed>(s_v + stage, 0, 0), From::sum,
                              [&](int m, int h, int, int) { return kIsScaled<T> ? units[m][h] : 1; });
        };
        if constexpr (!kOptions) {
          finish.template operator()<kIsFp32<T>, false>();
        } else if (options.threshold != 0) {
          finish.template operator()<true, true>();
        } else if (kIsFp32<T> || options.bias.data || p.max_seqlen_k <= kFewKeys) {
          finish.template operator()<true, false>();
        } else {
          finish.template operator()<false, false>();
        }
      }
      if (args.stages == 2) {
        stage ^= kKeyBytes;
      } else if (n > n_begin) {
        k_walk.end(k_held, s_k, scales.k);
      }
    }
  }

  // Normalizes and stores O and LSE, or the partial results of a split.
  const bool partial = args.splits.count > 1;
#pragma unroll
  for (int m = 0; m < kMt; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = lane_row + m * 16 + h * 8;
      const int i = map.position(row);
      const int head = place.head + map.head(row);
      const float sum = quad_sum(softmax.sum[m][h]);
      const Keys keys = allowed(i);
      bool has_keys = i < sequence.seqlen_q && keys.lo < keys.hi;
      if constexpr (kGeneral) {  // without a sink, a row of masked keys needs no distinction
        if (has_keys && p.sinks && softmax.maximum[m][h] == kMinusInfinity) has_keys = options.mask.allows_any(i, keys);
      }
      const float* sink = p.sinks && !partial ? p.sinks + head : nullptr;
      const float natural = score_unit * row_scales.of(m, h);
      const RowResult result = finish_row(multiply_rounded(softmax.maximum[m][h], natural), sum, has_keys, sink);
      const float inverse = kOptions ? result.inverse * p.dropout_scale : result.inverse;
#pragma unroll
      for (int n = 0; n < kD / 8; ++n) {
        o[m][n][2 * h] = inverse == 0 ? 0 : o[m][n][2 * h] * inverse;
        o[m][n][2 * h + 1] = inverse == 0 ? 0 : o[m][n][2 * h + 1] * inverse;
      }
      if (row >= rows_written) continue;
      const std::int64_t index = lse_index(p, sequence, place.b, head, i);
      if (partial) {
        const std::int64_t at = place.split * args.splits.rows + index;
        if (lane_index() % 4 == 0) args.splits.lse[at] = result.lse;
        float* to = args.splits.o + at * kD + lane_index() % 4 * 2;
#pragma unroll
        for (int n = 0; n < kD / 8; ++n) {
          *reinterpret_cast<float2*>(to + n * 8) = make_float2(o[m][n][2 * h], o[m][n][2 * h + 1]);
        }
      } else if (p.lse && lane_index() % 4 == 0) {
        p.lse[index] = result.lse;
      }
    }
  }
  if (partial) return;
  const Rows<T> to = rows_at<T>(p.o, head_offset(p.o, place.b, place.head, sequence.q_begin), p.dv_dim);
  const int rows_left = rows_written - first_row - warp_row;
  const auto row_offset = [&](int row) { return map.offset(p.o, first_row + warp_row + row); };
  if constexpr (!kIsFp32<T>) {  // through the Q tile in shared memory, so that each store is a 16-byte vector
    const std::uint32_t s_o = s_q + static_cast<std::uint32_t>(warp_row * kD * 2);
    warp_sync();
    store_accumulators<T, kWarpRows, kD>(s_o, 0, 0, o);
    warp_sync();
    store_tile<T, kWarpRows, kD, kWarpLanes, kGeneral>(to, s_o, lane_index(), rows_left, row_offset);
  } else {
    store_rows(to, o, 0, 0, rows_left, row_offset);
  }
}

template <int kD>
void ForwardKernels<kD>::launch(const ForwardLaunch& launch) {
  const ForwardConfig& config = launch.config;
  const ForwardArgs& args = launch.args;
  const auto start = [&]<class T, ForwardKind kKind>() {
    const std::int64_t units = std::int64_t{args.params.batch} * (args.params.heads_q / args.packed_heads);
    launch_kernel(forward_kernel<T, kD, kKind>,
                  {"flash2 forward", units * args.row_tiles * args.splits.count,
                   kForwardShape<T, kD, kKind>.warps * kWarpLanes, config.shared_bytes, launch.stream},
                  args);
  };
  // Head dimensions for which each kind has a kernel (config.h).
  constexpr bool kHasOptions = kD == 64 || kD == 128;
  constexpr bool kAllKinds = kHasOptions || kD == 256;
  const auto start_16_bits = [&]<class T>() {
    if (config.kind == ForwardKind::plain) return start.template operator()<T, ForwardKind::plain>();
    if constexpr (kHasOptions) {
      if (config.kind == ForwardKind::options) return start.template operator()<T, ForwardKind::options>();
    }
    if constexpr (kAllKinds) {
      if (config.kind == ForwardKind::general) return start.template operator()<T, ForwardKind::general>();
      start.template operator()<T, ForwardKind::small>();
    }
  };
  switch (launch.dtype) {
    case DType::fp16: return start_16_bits.template operator()<Fp16>();
    case DType::bf16: return start_16_bits.template operator()<Bf16>();
    case DType::fp32: break;
  }
  if constexpr (kD <= 64) {
    const bool plain = config.kind == ForwardKind::plain;
    if (plain && config.split_format == SplitFormat::rounded)
      return start.template operator()<Tf32, ForwardKind::plain>();
    if (plain) return start.template operator()<Fp32Scaled, ForwardKind::plain>();
  }
  if constexpr (kAllKinds) start.template operator()<Fp32, ForwardKind::general>();
}

}  // namespace strobe::cuda::sm80
