// P and dS of the Hopper backward. Both are transposed, in accumulators [64 keys][kRows rows] of a warpgroup, so LSE
// and delta of a row apply to a column. Called by kernel.cuh and pairs.cuh.
#pragma once

#include "attention/cuda/device/sequence.cuh"
#include "attention/cuda/device/softmax.cuh"

namespace strobe::cuda::sm90 {

// Replaces scores by probabilities. lse: shared-memory address of the first row's LSE * log2(e). alibi: Alibi in base-2
// exponents, or NoAlibi.
template <int kRows, class Term>
__device__ __forceinline__ void weigh(float (&s)[kRows / 2], std::uint32_t lse, float factor, const Term& alibi) {
  const std::uint32_t mine = lse + static_cast<std::uint32_t>(lane_index() % 4 * 8);
#pragma unroll
  for (int n = 0; n < kRows / 8; ++n) {
    const float2 rows = load_shared_pair(mine + n * 32);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int i = 4 * n + 2 * h;
      s[i] = exp2_fast(alibi.add(s[i] * factor - rows.x, 8 * n - 8 * h));
      s[i + 1] = exp2_fast(alibi.add(s[i + 1] * factor - rows.y, 8 * n - 8 * h + 1));
    }
  }
}

// Calls clear(i) for each masked score i of this thread. key: this thread's first key; the second is key + 8.
// first_row: row of the first column.
template <int kRows, class Clear>
__device__ __forceinline__ void mask_probabilities(const Sequence& sequence, int key, int first_row, Clear&& clear) {
  const int row = first_row + lane_index() % 4 * 2;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    Keys rows = sequence.rows_of(key + 8 * h, key + 8 * h);
    if (key + 8 * h >= sequence.seqlen_k) rows.hi = rows.lo;
    rows.lo -= row;
    rows.hi -= row;
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (n * 8 + e < rows.lo || n * 8 + e >= rows.hi) clear(4 * n + 2 * h + e);
      }
    }
  }
}

// Replaces dP in `d` by dS. delta: shared-memory address of the first row's value. Kept: KeepsAll or KeptScores.
template <class Kept, int kRows>
__device__ __forceinline__ void take_delta(float (&d)[kRows / 2], const float (&probabilities)[kRows / 2],
                                           std::uint32_t delta) {
  const std::uint32_t mine = delta + static_cast<std::uint32_t>(lane_index() % 4 * 8);
#pragma unroll
  for (int n = 0; n < kRows / 8; ++n) {
    const float2 rows = load_shared_pair(mine + n * 32);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int i = 4 * n + 2 * h;
      d[i] = Kept::gradient(probabilities[i], d[i], rows.x);
      d[i + 1] = Kept::gradient(probabilities[i + 1], d[i + 1], rows.y);
    }
  }
}

}  // namespace strobe::cuda::sm90
