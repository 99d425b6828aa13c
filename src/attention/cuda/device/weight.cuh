// Weights of a row from its scores and its LSE in fp32, as exact as the two are. The exponent of a weight, rounded as
// one number, would cost bits of it: its integer part is taken off before anything is rounded, and the rest stays
// below 1.
#pragma once

#include "attention/cuda/device/softmax.cuh"

namespace strobe::cuda {

// exp(score - LSE) / 2^log2_sum, for the scores of one row.
struct RowWeight {
  float base;   // taken off scores first: LSE where that is so large that its logarithm's fraction is lost, else 0
  float shift;  // kMagic - integer part of the rest of LSE, in units of log2; -inf: all weights are 0
  float rest;   // what is left of it, negated

  static constexpr float kMagic = 0x1.8p23f;  // a float near it is an integer, which its low bits are
  static constexpr float kLargest = 0x1p13f;
  static constexpr float kLog2ELow = 0x1.4ae0cp-26f;  // log2(e) - kLog2E

  __device__ __forceinline__ void set(float lse, float log2_sum) {
    base = fabsf(lse) >= kLargest ? lse : 0;
    const float small = lse - base;
    const float whole = (small * kLog2E + log2_sum + kMagic) - kMagic;
    shift = kMagic - whole;
    rest = -((fmaf(small, kLog2E, -whole) + small * kLog2ELow) + log2_sum);
  }

  // A row without keys.
  __device__ __forceinline__ void set_empty() { base = 0, shift = kMinusInfinity, rest = 0; }

  __device__ __forceinline__ float of(float score) const {
    const float s = score - base;
    const float moved = fmaf(s, kLog2E, shift);  // kMagic + integer part of the exponent
    const float whole = moved - shift;           // integer part of s * log2(e)
    const float part = fmaf(s, kLog2E, -whole) + fmaf(s, kLog2ELow, rest);
    const float power = bits_to_float((float_to_bits(moved) << 23) + 0x3f800000u);
    const float weight = exp2_fast(part) * power;
    return moved < kMagic - 126 ? 0 : weight;  // NaN is not less
  }
};

}  // namespace strobe::cuda
