// Recomputes the probabilities and score gradients of one tile from LSE. Used by kernel.cuh and sums.cuh.
#pragma once

#include <type_traits>

#include "attention/cuda/device/bias_tile.cuh"
#include "attention/cuda/device/copy.cuh"
#include "attention/cuda/device/groups.cuh"
#include "attention/cuda/device/sequence.cuh"
#include "attention/cuda/device/softmax.cuh"
#include "attention/cuda/sm80/backward/launch.h"

namespace strobe::cuda::sm80 {

struct RowTile {
  int tile, head, b;
};

// Row tile of this block in kernels with one block per row tile.
__device__ __forceinline__ RowTile row_tile_of_block(const BackwardArgs& args) {
  const unsigned head = blockIdx.x / args.row_tiles, heads = args.params.heads_q;
  return {static_cast<int>(blockIdx.x % args.row_tiles), static_cast<int>(head % heads),
          static_cast<int>(head / heads)};
}

// True if this fp32 kernel must return at once: args.spread selects the kernels with scales or those without.
template <class T>
__device__ __forceinline__ bool is_left_to_others(const BackwardArgs& args) {
  if constexpr (!kIsFp32<T>) return false;
  return args.spread && (*args.spread != 0) == kIsScaled<T>;
}

template <class T, int kD, BackwardKind kKind>
inline constexpr BackwardShape kBackwardShape = backward_shape(kD, kKind, kSplitFormat<T>);

// natural: scores and RowLse::lse are in natural units. exponent: lse is LSE * log2(e) + log2_sum, which is subtracted
// from a base-2 exponent; RowLse::log2_sum is then 0.
enum class LseUnits { natural, exponent };

// LSE of a row, and log2 of its sum of exp(score - LSE) (0 if not computed). For 16-bit types.
struct RowLse {
  float lse, log2_sum;
};

// Number of keys of a row for RowWeight: 0 if a boolean mask may leave any number of them.
__device__ __forceinline__ int count_keys(const Params& p, const PaddedSequence& sequence, int i) {
  const Keys keys = sequence.allowed(i);
  return p.mask.data ? 0 : keys.hi - keys.lo;
}

// Delta and LSE of this lane's rows. fp32 types have a RowWeight instead of the LSE.
template <class T, int kMt, bool kHasSums>
struct RowStatistics {
  static constexpr bool kExact = kIsFp32<T>;
  std::conditional_t<kExact, RowWeight, RowLse> of[kMt][2];
  float delta[kMt][2];

  __device__ __forceinline__ void load(const BackwardArgs& args, const Sequence& sequence, int b, int head,
                                       int first_row, LseUnits units) {
    const std::int64_t head_index = lse_index(args.params, sequence, b, head, 0);
    const bool natural = units == LseUnits::natural;
#pragma unroll
    for (int m = 0; m < kMt; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int i = first_row + m * 16 + h * 8;
        const bool valid = i < sequence.seqlen_q;
        if constexpr (kExact) {
          if (args.row_facts) {
            const float4 facts = valid ? reinterpret_cast<const float4*>(args.row_facts)[head_index + i]
                                       : make_float4(0, kMinusInfinity, 0, 0);
            of[m][h].base = facts.x, of[m][h].rest = facts.y, of[m][h].power = facts.z;
            delta[m][h] = facts.w;
            continue;
          }
        }
        const float lse = valid ? args.params.lse[head_index + i] : kMinusInfinity;
        const float log2_sum = kHasSums && valid && args.log2_sums ? args.log2_sums[head_index + i] : 0;
        delta[m][h] = valid && args.delta ? args.delta[head_index + i] : 0;
        if constexpr (kExact) {
          const PaddedSequence padded(sequence, args.params.first_keys, b);
          of[m][h] = RowWeight(lse, log2_sum, count_keys(args.params, padded, i));
        } else if (lse == kMinusInfinity) {  // probabilities of a row without keys are 0
          of[m][h] = {-kMinusInfinity, 0};
        } else {
          of[m][h] = natural ? RowLse{lse, log2_sum} : RowLse{lse * kLog2E + log2_sum, 0};
        }
      }
    }
  }
};

// Callback for Scores::compute() that ignores the probabilities.
struct NoWeights {
  __device__ __forceinline__ void operator()(int, int, int, float) const {}
};

// Shared-memory addresses of the tiles q [rows][kD], k [keys][kD], d_o [rows][kD] and v [keys][kD], of the bias of this
// pass, if there is one, and of the group scales (groups.cuh).
struct ScoreTiles {
  std::uint32_t q, k, d_o, v, bias = 0;
  std::uint32_t q_scales = 0, k_scales = 0, d_o_scales = 0, v_scales = 0;
};

// One pass over a warp's score tile: rows [row, row + kScoreRows) of the tile, keys [key, key + kScoreKeys).
template <class T, int kD, BackwardKind kKind>
struct Scores {
  static constexpr BackwardShape kShape = kBackwardShape<T, kD, kKind>;
  static constexpr bool kOptions = kKind != BackwardKind::plain, kGeneral = kKind == BackwardKind::general;
  static constexpr int kScoreRows = kShape.rows / kShape.score_warps;
  static constexpr int kScoreKeys = kShape.keys * kShape.score_warps / kShape.warps / kShape.score_parts;
  static constexpr int kMt = kScoreRows / 16, kNt = kScoreKeys / 8;
  static constexpr bool kBiasTile = kKind == BackwardKind::options;
  using Bias = BiasTile<T, kScoreRows, kBiasTile ? kScoreKeys : 32>;

  int row, key;               // position of this warp's scores in the tile
  int first_row, first_key;   // first row and key of the tile, in the sequence
  float weight[kMt][kNt][4];  // probability, with dropout if enabled
  float ds[kMt][kNt][4];      // gradient of scale * q.k

  __device__ __forceinline__ Scores(int row_tile, int tile_key, int part = 0)
      : row(warp_index() % kShape.score_warps * kScoreRows),
        key((warp_index() / kShape.score_warps * kShape.score_parts + part) * kScoreKeys),
        first_row(row_tile * kShape.rows),
        first_key(tile_key) {}

  // Row and key of one of this lane's accumulators.
  __device__ __forceinline__ int row_of(int m, int e) const {
    return first_row + row + m * 16 + e / 2 * 8 + lane_index() / 4;
  }
  __device__ __forceinline__ int key_of(int n, int e) const {
    return first_key + key + n * 8 + e % 2 + lane_index() % 4 * 2;
  }

  // Clears the keys of the tiles of K and V that are left padding, if there are any. They may be NaN, and 0 times NaN
  // is NaN. Waits for cp.async first. The caller calls block_sync() before it reads the tiles.
  __device__ static __forceinline__ void clear_padding(const PaddedSequence& sequence, int tile_key, std::uint32_t k,
                                                       std::uint32_t v) {
    if (tile_key >= sequence.first_valid) return;
    copy_async_wait<0>();
    block_sync();
    const int keys = min(kShape.keys, sequence.first_valid - tile_key);
    clear_rows<T, kShape.keys, kD, kShape.warps * kWarpLanes>(k, keys);
    clear_rows<T, kShape.keys, kD, kShape.warps * kWarpLanes>(v, keys);
  }

  // Bias tile of a pass.
  __device__ static __forceinline__ Bias bias_part(std::uint32_t tiles, int part) {
    return {tiles + static_cast<std::uint32_t>((warp_index() * kShape.score_parts + part) * Bias::kBytes)};
  }

  // Computes `weight` and `ds`. With score options it calls on_weight(m, n, e, weight) for each probability before
  // dropout, and on_gradients() while ds is the gradient of the biased score.
  template <class OnWeight, class OnGradients>
  __device__ __forceinline__ void compute(const BackwardArgs& args, const Sequence& sequence, int b, int head,
                                          const ScoreTiles& tiles, OnWeight&& on_weight, OnGradients&& on_gradients) {
    const BackwardParams& p = args.params;
    const HeadScoreOptions options(p, b, head);
    const bool natural = kOptions && HeadScoreOptions::natural(p);
    RowStatistics<T, kMt, kOptions || kIsFp32<T>> rows;
    rows.load(args, sequence, b, head, row_of(0, 0), natural ? LseUnits::natural : LseUnits::exponent);
    if constexpr (kOptions && !kBiasTile) {
      options.template prefetch_bias<kMt, kNt>(row_of(0, 0), key_of(0, 0), sequence);
    }
    if constexpr (kGeneral) options.mask.template prefetch<kMt, kNt>(row_of(0, 0), key_of(0, 0), sequence);
    multiply_rows(weight, tiles.q, tiles.k, tiles.q_scales, tiles.k_scales);
    CapSlopes<T, kOptions ? kMt : 1, kOptions ? kNt : 1> slopes;
    if constexpr (kOptions) options.template apply<T>(weight, slopes, row_of(0, 0), key_of(0, 0), sequence);
    if (kOptions && options.bias.data) {
      if constexpr (kBiasTile) {
        Bias{tiles.bias}.add(weight);
      } else {
        options.template add_bias<T>(weight, row_of(0, 0), key_of(0, 0), sequence);
      }
    }
    if constexpr (kGeneral) {
      if (options.mask.data) options.mask.apply(weight, row_of(0, 0), key_of(0, 0), sequence);
    }
    mask(PaddedSequence(sequence, p.first_keys, b));  // read again to save a register in the loop of backward_kernel
    // No branch separates the exponentials from the matmul, so that the compiler can overlap them.
    const auto finish = [&]<bool kNatural, bool kDrop>() {
      exponentiate<kNatural>(rows, kOptions ? options.unit : p.scale, p.scale);
      multiply_rows(ds, tiles.d_o, tiles.v, tiles.d_o_scales, tiles.v_scales);
      if constexpr (kOptions) for_each(weight, [&](int m, int n, int e) { on_weight(m, n, e, weight[m][n][e]); });
      if constexpr (kDrop) {
        const auto drop = [&](int m, int n, int e, bool keeps) {
          const float gradient = keeps ? multiply_rounded(ds[m][n][e], p.dropout_scale) : 0;
          ds[m][n][e] = weight[m][n][e] * (gradient - rows.delta[m][e / 2]);
          weight[m][n][e] = keeps ? weight[m][n][e] * p.dropout_scale : 0;
        };
        options.drop(weight, row_of(0, 0), key_of(0, 0), drop);
      } else {
        for_each(ds,
                 [&](int m, int n, int e) { ds[m][n][e] = weight[m][n][e] * (ds[m][n][e] - rows.delta[m][e / 2]); });
      }
    };
    if constexpr (!kOptions) {
      finish.template operator()<false, false>();
    } else {
      if (options.threshold != 0) {
        finish.template operator()<true, true>();
      } else if (kIsFp32<T> || natural) {
        finish.template operator()<true, false>();
      } else {
        finish.template operator()<false, false>();
      }
      on_gradients();
      if (options.softcap != 0) for_each(ds, [&](int m, int n, int e) { ds[m][n][e] *= slopes.get(m, n, e); });
    }
  }

 private:
  // c = A B^T for this pass's rows of A (Q or dO) and keys of B (K or V).
  __device__ __forceinline__ void multiply_rows(float (&c)[kMt][kNt][4], std::uint32_t rows, std::uint32_t keys,
                                                std::uint32_t row_scales, std::uint32_t key_scales) const {
    const LeftOf<T, kShape.rows, kD, Stored::plain> left(rows, row, 0);
    const RightOf<T, kShape.keys, kD, Stored::plain> right(keys, key, 0);
    if constexpr (!kIsScaled<T>) {
      mma_tiles<T, kD>(c, left, right, From::zero);
    } else {
      float of_rows[kMt], of_keys[kNt / 2];
      load_scales(of_rows, row_scales, row / kGroupRows);
      load_scales(of_keys, key_scales, key / kGroupRows);
      mma_tiles<T, kD>(c, left, right, From::zero,
                       [&](int m, int, int n, int) { return matmul_scale(of_rows[m], of_keys[n]); });
    }
  }

  // Converts scores to probabilities. fp32 uses RowWeight. In natural units it subtracts LSE before it multiplies,
  // because a score may be -FLT_MAX.
  template <bool kNatural>
  __device__ __forceinline__ void exponentiate(const RowStatistics<T, kMt, kOptions || kIsFp32<T>>& rows, float unit,
                                               float scale) {
    const float factor = unit * kLog2E;
    for_each(weight, [&](int m, int n, int e) {
      const auto& row = rows.of[m][e / 2];
      float& w = weight[m][n][e];
      if constexpr (kIsFp32<T>) {
        w = row.of(kOptions ? w : multiply_rounded(w, scale));
      } else if constexpr (kNatural) {
        w = exp2_fast((w - row.lse) * kLog2E - row.log2_sum);
      } else {
        w = exp2_fast(w * factor - row.lse);
      }
    });
  }

  // Sets scores of masked keys to -inf.
  __device__ __forceinline__ void mask(const PaddedSequence& sequence) {
    const Keys unmasked = sequence.all(first_row, min(first_row + kShape.rows, sequence.seqlen_q) - 1);
    if (first_key >= unmasked.lo && first_key + kShape.keys <= unmasked.hi) return;
#pragma unroll
    for (int m = 0; m < kMt; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const Keys keys = sequence.allowed(row_of(m, 2 * h));
#pragma unroll
        for (int n = 0; n < kNt; ++n) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int j = key_of(n, e);
            if (j < keys.lo || j >= keys.hi) weight[m][n][2 * h + e] = kMinusInfinity;
          }
        }
      }
    }
  }
};

}  // namespace strobe::cuda::sm80
