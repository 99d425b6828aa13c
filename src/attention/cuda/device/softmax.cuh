// Online softmax of the rows in a warp's accumulators: each lane has 2 rows of every 16 and a quarter of their columns.
// Maxima are in units of the scores; a factor converts scores to base-2 exponents. sm80/ uses OnlineSoftmax; the row
// functions below also serve fp32/, sm90/ and splits.cu.
#pragma once

#include "attention/cuda/device/options.cuh"
#include "attention/cuda/device/tile.cuh"

namespace strobe::cuda {

inline constexpr float kMinusInfinity = -__builtin_huge_valf();

// True if |LSE| is so large that two split floats per element (split_format.h) are not exact enough: the rounding of
// scores then affects probabilities near 1. The kernels with three split floats compute such problems.
__device__ __forceinline__ bool is_large_lse(float lse) { return fabsf(lse) >= 16 && fabsf(lse) < -kMinusInfinity; }

__device__ __forceinline__ float quad_max(float value) {
  value = fmaxf(value, shuffle_xor(value, 1));
  return fmaxf(value, shuffle_xor(value, 2));
}

__device__ __forceinline__ float quad_sum(float value) {
  value += shuffle_xor(value, 1);
  return value + shuffle_xor(value, 2);
}

// The same factor for all rows.
struct OneFactor {
  float factor;
  __device__ __forceinline__ float of(int, int) const { return factor; }
};

template <int kMt>
struct OnlineSoftmax {
  float maximum[kMt][2], sum[kMt][2];  // sum: over this lane's columns

  __device__ __forceinline__ OnlineSoftmax() {
#pragma unroll
    for (int m = 0; m < kMt; ++m) {
      maximum[m][0] = maximum[m][1] = kMinusInfinity;
      sum[m][0] = sum[m][1] = 0;
    }
  }

  // Replaces scores by probabilities relative to the running maximum, and rescales the accumulated output to it. With
  // kCareful it subtracts the maximum before it applies the factor, and sums each tile separately. Scores as low as
  // -FLT_MAX need this, because the factor would overflow them. So does fp32, where the probability of the maximum must
  // be exactly 1.
  template <bool kCareful, int kNt, int kOt, class Factors>
  __device__ __forceinline__ void weigh(float (&s)[kMt][kNt][4], float (&o)[kMt][kOt][4], const Factors& factors) {
#pragma unroll
    for (int m = 0; m < kMt; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float factor = factors.of(m, h);
        float highest = maximum[m][h];
#pragma unroll
        for (int n = 0; n < kNt; ++n) highest = fmaxf(highest, fmaxf(s[m][n][2 * h], s[m][n][2 * h + 1]));
        highest = quad_max(highest);
        const float base = highest == kMinusInfinity ? 0 : highest;  // no key in the row so far
        const float shrink = exp2_fast((maximum[m][h] - base) * factor);
        maximum[m][h] = highest;
        const float scaled_base = base * factor;
        const float before = sum[m][h] * shrink;
        float total = kCareful ? 0 : before;
#pragma unroll
        for (int n = 0; n < kNt; ++n) {
#pragma unroll
          for (int e = 2 * h; e < 2 * h + 2; ++e) {
            s[m][n][e] = exp2_fast(kCareful ? (s[m][n][e] - base) * factor : s[m][n][e] * factor - scaled_base);
            total += s[m][n][e];
          }
        }
        sum[m][h] = kCareful ? before + total : total;
#pragma unroll
        for (int n = 0; n < kOt; ++n) {
          o[m][n][2 * h] *= shrink;
          o[m][n][2 * h + 1] *= shrink;
        }
      }
    }
  }
};

// Factor that normalizes a finished row, and its LSE.
struct RowResult {
  float inverse, lse;
};

// `maximum` is a logit (natural units), `sum` covers all columns. A row without keys gets O = 0 and LSE = -inf even
// with a sink.
__device__ __forceinline__ RowResult finish_row(float maximum, float sum, bool has_keys, const float* sink) {
  if (!has_keys) return {0, kMinusInfinity};
  if (sink && *sink != kMinusInfinity) {
    const float highest = fmaxf(maximum, *sink);
    const float part = maximum == kMinusInfinity ? 0 : exp2f((maximum - highest) * kLog2E);
    const float total = sum * part + exp2f((*sink - highest) * kLog2E);
    return {part / total, highest + logf(total)};
  }
  if (sum == 0) return {0, kMinusInfinity};
  return {1 / sum, maximum + logf(sum)};
}

// Returns true if LSE suggests that the row has many keys of similar probability. The scores of such a row are small
// compared with LSE.
__device__ __forceinline__ bool weights_are_even(float lse, int keys) {
  const float size = fabsf(lse);
  if (keys <= 128 || size >= 16) return false;
  return size < 4 || fabsf(lse - logf(static_cast<float>(keys))) <= 2;
}

// exp(score - LSE) / 2^log2_sum for the scores of one row with `keys` keys, in fp32. If the scores that matter are near
// LSE, the difference score - LSE is small and is computed first. Otherwise the rounding error of the difference would
// grow with LSE. The integer part of LSE * log2(e) is therefore removed from the exponent and applied afterwards as a
// power of two, which is exact. The exponent then has the magnitude of the score and is rounded no more coarsely than
// the score was.
struct RowWeight {
  float base;   // subtracted from scores first: LSE if the scores that matter are near it, otherwise 0
  float rest;   // remainder of -LSE after the base and the power, as a base-2 exponent
  float power;  // a power of two

  static constexpr float kLog2ELow = 0x1.4ae0cp-26f;  // log2(e) - kLog2E

  RowWeight() = default;
  __device__ __forceinline__ RowWeight(float lse, float log2_sum, int keys) {
    base = weights_are_even(lse, keys) ? 0 : lse;
    const float small = lse - base;
    const float whole = rintf(fmaf(small, kLog2E, log2_sum));
    rest = -((fmaf(small, kLog2E, -whole) + log2_sum) + small * kLog2ELow);
    power = exp2f(-whole);
    if (lse == kMinusInfinity) base = 0, rest = kMinusInfinity, power = 0;  // no keys: all probabilities are 0
  }

  __device__ __forceinline__ float of(float score) const { return exp2_fast(fmaf(score - base, kLog2E, rest)) * power; }
};

}  // namespace strobe::cuda
