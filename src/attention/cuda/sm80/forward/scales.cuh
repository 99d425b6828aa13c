// Scales of fp32 types with split floats (split_format.h): the powers of two that undo the scaling of the rows of Q, K
// and V. The scales of Q are part of the row factor; those of K multiply the scores. Those of V multiply the
// probabilities, which are then scaled to the top of fp16's range. The inverse of that scale multiplies the tile's
// contribution to O.
#pragma once

#include "attention/cuda/device/softmax.cuh"
#include "attention/cuda/device/tile.cuh"

namespace strobe::cuda::sm80 {

// Shared-memory addresses of fp32 factors: q [rows], k [keys], v [keys].
struct Scales {
  std::uint32_t q, k, v;

  __device__ __forceinline__ Scales(std::uint32_t base, int rows, int keys)
      : q(base), k(q + static_cast<std::uint32_t>(rows * 4)), v(k + static_cast<std::uint32_t>(keys * 4)) {}
};

// Factors of this lane's rows of Q. With kMt = 0 all are 1.
template <int kMt>
struct RowScales {
  float value[kMt][2];

  __device__ __forceinline__ RowScales() {
#pragma unroll
    for (int m = 0; m < kMt; ++m) value[m][0] = value[m][1] = 1;
  }

  // row: this lane's first row.
  __device__ __forceinline__ void load(std::uint32_t scales, int row) {
#pragma unroll
    for (int m = 0; m < kMt; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        value[m][h] = bits_to_float(load_shared(scales + static_cast<std::uint32_t>((row + m * 16 + h * 8) * 4)));
      }
    }
  }

  __device__ __forceinline__ float of(int m, int h) const { return value[m][h]; }

  struct Factors {
    const RowScales& scales;
    float factor;
    // Never 0, because 0 times a score of -inf would be NaN.
    __device__ __forceinline__ float of(int m, int h) const { return fmaxf(scales.value[m][h] * factor, 0x1p-126f); }
  };
  __device__ __forceinline__ Factors factors(float factor) const { return {*this, factor}; }
};

template <>
struct RowScales<0> {
  __device__ __forceinline__ float of(int, int) const { return 1; }
};

// Scales of the keys of this lane's columns n * 8 + 2 * (lane % 4) and the next.
__device__ __forceinline__ float2 column_scales(std::uint32_t scales, int n) {
  return load_shared_pair(scales + static_cast<std::uint32_t>((n * 8 + lane_index() % 4 * 2) * 4));
}

template <int kMt, int kNt>
__device__ __forceinline__ void scale_columns(float (&s)[kMt][kNt][4], std::uint32_t scales) {
#pragma unroll
  for (int n = 0; n < kNt; ++n) {
    const float2 scale = column_scales(scales, n);
#pragma unroll
    for (int m = 0; m < kMt; ++m) {
      s[m][n][0] *= scale.x, s[m][n][1] *= scale.y;
      s[m][n][2] *= scale.x, s[m][n][3] *= scale.y;
    }
  }
}

// Multiplies probabilities by the scales of V, then scales each row to the top of fp16's range. Two terms keep bits
// down to 2^-39 of the largest value. The new scale must derive from the row's largest probability * scale of V,
// because the largest rows of V may have the smallest probabilities. `units` receives the factors for the matmul of
// each row with V.
template <int kMt, int kNt>
__device__ __forceinline__ void take_scales_of_v(float (&probabilities)[kMt][kNt][4], float (&units)[kMt][2],
                                                 std::uint32_t scales) {
  float largest[kMt][2] = {};
#pragma unroll
  for (int n = 0; n < kNt; ++n) {
    const float2 scale = column_scales(scales, n);
#pragma unroll
    for (int m = 0; m < kMt; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float &low = probabilities[m][n][2 * h], &high = probabilities[m][n][2 * h + 1];
        low *= scale.x, high *= scale.y;
        largest[m][h] = fmaxf(largest[m][h], fmaxf(low, high));
      }
    }
  }
#pragma unroll
  for (int m = 0; m < kMt; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const RowScale scale(quad_max(largest[m][h]));
      units[m][h] = scale.down;
#pragma unroll
      for (int n = 0; n < kNt; ++n) probabilities[m][n][2 * h] *= scale.up, probabilities[m][n][2 * h + 1] *= scale.up;
    }
  }
}

}  // namespace strobe::cuda::sm80
