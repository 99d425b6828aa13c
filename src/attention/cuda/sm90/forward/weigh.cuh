// Mask and online softmax of the Hopper forward; kernel.cuh calls them.
#pragma once

#include "attention/cuda/device/sequence.cuh"
#include "attention/cuda/device/softmax.cuh"

namespace strobe::cuda::sm90 {

// Sets masked scores to -infinity. keys: those that this thread's two rows see; column: key of this thread's first
// score.
template <int kKeys>
__device__ __forceinline__ void mask_scores(float (&s)[kKeys / 2], const Keys (&keys)[2], int column) {
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int j = column + n * 8 + e % 2;
      if (j < keys[e / 2].lo || j >= keys[e / 2].hi) s[4 * n + e] = kMinusInfinity;
    }
  }
}

// Online softmax state of a thread's two rows: maximum in units of the scores, sum over this thread's columns.
struct TwoRows {
  float maximum[2] = {kMinusInfinity, kMinusInfinity}, sum[2] = {0, 0};

  // Replaces scores by probabilities relative to the new maximum, and adds them to the sum. Sets `shrink` to the
  // factors by which the caller multiplies earlier accumulators. The two rows are interleaved, so their additions do
  // not wait for each other. kCareful: subtracts the maximum before it multiplies, for scores as low as -FLT_MAX.
  template <bool kCareful = false, int kCount>
  __device__ __forceinline__ void weigh(float (&s)[kCount], float factor, float (&shrink)[2]) {
    float highest[2] = {s[0], s[2]}, scaled_base[2], total[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < kCount; ++i) highest[i / 2 % 2] = fmaxf(highest[i / 2 % 2], s[i]);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      highest[h] = quad_max(fmaxf(maximum[h], highest[h]));
      const float base = highest[h] == kMinusInfinity ? 0 : highest[h];  // no visible key so far
      shrink[h] = exp2_fast((maximum[h] - base) * factor);
      maximum[h] = highest[h];
      scaled_base[h] = kCareful ? base : base * factor;
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float base = scaled_base[i / 2 % 2];
      s[i] = exp2_fast(kCareful ? (s[i] - base) * factor : s[i] * factor - base);
      total[i / 2 % 2] += s[i];
    }
    sum[0] = sum[0] * shrink[0] + total[0];
    sum[1] = sum[1] * shrink[1] + total[1];
  }
};

}  // namespace strobe::cuda::sm90
