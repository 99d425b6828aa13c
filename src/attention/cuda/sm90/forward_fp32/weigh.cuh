// From products to weights in the Hopper forward for fp32, of a thread's two rows. Weights are relative to their own
// tile's largest, which brings that to the top of fp16's range whatever came before: just below a power of two, where
// two parts keep far more than elsewhere. So a row with one key, or with one that outweighs all, has that key's V.
#pragma once

#include "attention/cuda/device/element.cuh"
#include "attention/cuda/device/softmax.cuh"

namespace strobe::cuda::sm90 {

inline constexpr float kTopPower = 15;  // the largest weight of a row in a tile is at most 2^15
inline constexpr float kFromTop = 0x1p-15f;

// 2^power, of a power of at most 0; 0 for NaN, which a difference of infinities is.
__device__ __forceinline__ float power_of_two(float power) { return exp2_fast(fmaxf(power, -1000.f)); }

struct Fp32TwoRows {
  float base[2] = {kMinusInfinity, kMinusInfinity};  // log2; weights are relative to it
  float sum[2] = {0, 0};                             // of this thread's columns

  // What a tile's weights do to rows: what was summed before is multiplied with `shrink`, what the tile gives with
  // `unit`.
  struct Step {
    float shrink[2], unit[2];
  };

  // Products become weights. factor: what makes products log2 of weights, by piece of the keys and by row.
  template <int kCount, int kPieces>
  __device__ __forceinline__ Step weigh(float (&s)[kCount], const float (&factor)[kPieces][2]) {
    constexpr int kInPiece = kCount / kPieces;
    Step step;
    float minus_base[2], total[2] = {0, 0};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float here = kMinusInfinity;
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        float highest = kMinusInfinity;
#pragma unroll
        for (int i = piece * kInPiece + 2 * h; i < (piece + 1) * kInPiece; i += 4) {
          highest = fmaxf(highest, fmaxf(s[i], s[i + 1]));
        }
        here = fmaxf(here, __fmaf_ru(highest, factor[piece][h], -kTopPower));  // up, so that no weight passes the top
      }
      here = quad_max(here);
      const float before = base[h];
      base[h] = fmaxf(before, here);
      step.shrink[h] = power_of_two(before - base[h]);
      step.unit[h] = power_of_two(here - base[h]);
      minus_base[h] = here == kMinusInfinity ? 0 : -here;  // no key of this tile
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      s[i] = exp2_fast(fmaf(s[i], factor[i / kInPiece][i / 2 % 2], minus_base[i / 2 % 2]));
      total[i / 2 % 2] += s[i];
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) sum[h] = fmaf(total[h], step.unit[h], sum[h] * step.shrink[h]);
    return step;
  }
};

// Columns n * 8 + 2 * (lane % 4) and the next of both rows of a piece, times the scales of their keys and a factor.
template <int kPiece, int kInPiece, int kCount>
__device__ __forceinline__ void scale_keys(float (&s)[kCount], std::uint32_t scales, float factor) {
#pragma unroll
  for (int n = kPiece * kInPiece / 4; n < (kPiece + 1) * kInPiece / 4; ++n) {
    const float2 scale = load_shared_pair(scales + static_cast<std::uint32_t>((n * 8 + lane_index() % 4 * 2) * 4));
    s[4 * n] *= scale.x * factor, s[4 * n + 1] *= scale.y * factor;
    s[4 * n + 2] *= scale.x * factor, s[4 * n + 3] *= scale.y * factor;
  }
}

// Where rows of a piece of V have scales of their own, weights take them and are brought to the top of fp16's range
// again: no other measure than the largest product of weight and scale would do, since the largest rows of V may have
// the least weights. Units take what that took.
template <int kPiece, int kInPiece, int kCount>
__device__ __forceinline__ void take_scales_of_v(float (&s)[kCount], float (&unit)[2], std::uint32_t scales) {
  scale_keys<kPiece, kInPiece>(s, scales, kFromTop);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float largest = 0;
#pragma unroll
    for (int i = kPiece * kInPiece + 2 * h; i < (kPiece + 1) * kInPiece; i += 4) {
      largest = fmaxf(largest, fmaxf(s[i], s[i + 1]));
    }
    const RowScale scale(quad_max(largest));
#pragma unroll
    for (int i = kPiece * kInPiece + 2 * h; i < (kPiece + 1) * kInPiece; i += 4) s[i] *= scale.up, s[i + 1] *= scale.up;
    unit[h] *= scale.down;
  }
}

}  // namespace strobe::cuda::sm90
