// Weights of a row from its scores and its LSE in fp32. As one number the exponent of a weight, score - LSE, would be
// rounded by the size of LSE. So LSE is taken apart: its whole powers of two are multiplied on afterwards, which is
// exact, and what is rounded is of the size of the score, which was rounded like that before.
#pragma once

#include "attention/cuda/device/softmax.cuh"

namespace strobe::cuda {

// Whether a row has many keys of like weights, as far as LSE tells: then scores are small beside it.
__device__ __forceinline__ bool weights_are_even(float lse, int keys) {
  const float size = fabsf(lse);
  if (keys <= 128 || size >= 16) return false;
  return size < 4 || fabsf(lse - logf(static_cast<float>(keys))) <= 2;
}

// exp(score - LSE) / 2^log2_sum, for the scores of one row with so many keys.
struct RowWeight {
  float base;   // taken off scores first: LSE where the scores that matter are near it, else 0
  float rest;   // of -LSE after the base and the power, in units of log2
  float power;  // of two

  static constexpr float kLog2ELow = 0x1.4ae0cp-26f;  // log2(e) - kLog2E

  RowWeight() = default;
  __device__ __forceinline__ RowWeight(float lse, float log2_sum, int keys) {
    base = weights_are_even(lse, keys) ? 0 : lse;
    const float small = lse - base;
    const float whole = rintf(fmaf(small, kLog2E, log2_sum));
    rest = -((fmaf(small, kLog2E, -whole) + log2_sum) + small * kLog2ELow);
    power = exp2f(-whole);
    if (lse == kMinusInfinity) base = 0, rest = kMinusInfinity, power = 0;  // no keys: all weights are 0
  }

  __device__ __forceinline__ float of(float score) const { return exp2_fast(fmaf(score - base, kLog2E, rest)) * power; }
};

}  // namespace strobe::cuda
