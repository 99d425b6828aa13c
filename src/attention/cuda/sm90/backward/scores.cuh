// Weights and gradients of scores in the Hopper backward, both transposed: [64 keys][kRows rows] of a warpgroup as
// products leave them. So what belongs to a row of the problem belongs to a column here.
#pragma once

#include "attention/cuda/device/sequence.cuh"
#include "attention/cuda/device/softmax.cuh"

namespace strobe::cuda::sm90 {

// Scores to weights. lse: of the first row, in shared memory, in powers of two.
template <int kRows>
__device__ __forceinline__ void weigh(float (&s)[kRows / 2], std::uint32_t lse, float factor) {
  const std::uint32_t mine = lse + static_cast<std::uint32_t>(lane_index() % 4 * 8);
#pragma unroll
  for (int n = 0; n < kRows / 8; ++n) {
    const float2 rows = load_shared_pair(mine + n * 32);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      s[4 * n + 2 * h] = exp2_fast(s[4 * n + 2 * h] * factor - rows.x);
      s[4 * n + 2 * h + 1] = exp2_fast(s[4 * n + 2 * h + 1] * factor - rows.y);
    }
  }
}

// Weights that are not there become 0. key: this thread's first, the other is 8 below; first_row: of these columns.
template <int kRows>
__device__ __forceinline__ void mask_weights(float (&s)[kRows / 2], const Sequence& sequence, int key, int first_row) {
  const int row = first_row + lane_index() % 4 * 2;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    Keys rows = sequence.rows_of(key + 8 * h, key + 8 * h);
    if (key + 8 * h >= sequence.k_length) rows.hi = rows.lo;
    rows.lo -= row;
    rows.hi -= row;
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (n * 8 + e < rows.lo || n * 8 + e >= rows.hi) s[4 * n + 2 * h + e] = 0;
      }
    }
  }
}

// d: gradients of weights, become those of scores.
template <int kRows>
__device__ __forceinline__ void take_delta(float (&d)[kRows / 2], const float (&weights)[kRows / 2],
                                           std::uint32_t delta) {
  const std::uint32_t mine = delta + static_cast<std::uint32_t>(lane_index() % 4 * 8);
#pragma unroll
  for (int n = 0; n < kRows / 8; ++n) {
    const float2 rows = load_shared_pair(mine + n * 32);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      d[4 * n + 2 * h] = weights[4 * n + 2 * h] * (d[4 * n + 2 * h] - rows.x);
      d[4 * n + 2 * h + 1] = weights[4 * n + 2 * h + 1] * (d[4 * n + 2 * h + 1] - rows.y);
    }
  }
}

}  // namespace strobe::cuda::sm90
