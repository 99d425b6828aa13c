// What changes a score between q.k and the mask, and dropout: the order and the
// bits of the specification.
#pragma once

#include "attention/cuda/device/element.cuh"
#include "attention/cuda/params.h"

namespace strobe::cuda {

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

// The first word of Philox4x32-10 for the counter (b, h, i, j), the same as
// core/philox.h gives.
__device__ __forceinline__ std::uint32_t philox_word(std::uint64_t seed, std::uint32_t b, std::uint32_t h,
                                                     std::uint32_t i, std::uint32_t j) {
  constexpr std::uint32_t kM0 = 0xD2511F53u, kM1 = 0xCD9E8D57u, kW0 = 0x9E3779B9u, kW1 = 0xBB67AE85u;
  auto k0 = static_cast<std::uint32_t>(seed);
  auto k1 = static_cast<std::uint32_t>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint32_t high0 = multiply_high(kM0, b), low0 = kM0 * b;
    const std::uint32_t high1 = multiply_high(kM1, i), low1 = kM1 * i;
    b = high1 ^ h ^ k0;
    h = low1;
    i = high0 ^ j ^ k1;
    j = low0;
    k0 += kW0;
    k1 += kW1;
  }
  return b;
}

// tanh by one exponential and one reciprocal: absolute error about 1e-7, also
// for large |x|.
__device__ __forceinline__ float tanh_fast(float x) { return 1 - 2 * reciprocal_fast(1 + exp2_fast(x * (2 * kLog2E))); }

// The options of one (sequence, query head), as run-time branches that are the
// same for the whole block.
struct ScoreOptions {
  float scale, softcap, inverse_softcap, slope;  // slope of ALiBi
  const char* bias;                              // of row 0, key 0
  std::int64_t bias_row;
  bool bias_fp32;
  std::uint32_t threshold;
  std::uint64_t seed;
  std::uint32_t b, h;

  __device__ __forceinline__ ScoreOptions(const Params& p, int batch, int head)
      : scale(p.scale),
        softcap(p.softcap),
        inverse_softcap(p.softcap != 0 ? 1 / p.softcap : 0),
        slope(p.alibi_slopes ? p.alibi_slopes[head] : 0),
        bias(nullptr),
        bias_row(p.bias.row),
        bias_fp32(p.bias_fp32),
        threshold(p.dropout_threshold),
        seed(p.seed),
        b(static_cast<std::uint32_t>(batch)),
        h(static_cast<std::uint32_t>(head)) {
    if (p.bias.data) {
      bias = static_cast<const char*>(p.bias.data) +
             (batch * p.bias.batch + head * p.bias.head) * static_cast<std::int64_t>(bias_fp32 ? 4 : 2);
    }
  }

  // The score of row i, key j from q.k, in natural units; `inside` says whether
  // bias has that element. `cap_slope` becomes the derivative of the cap.
  template <class T>
  __device__ __forceinline__ float score(float q_dot_k, int i, int j, int offset, bool inside, float& cap_slope) const {
    float s = q_dot_k * scale;
    cap_slope = 1;
    if (softcap != 0) {
      const float t = kPlanes<T> == 1 ? tanh_fast(s * inverse_softcap) : tanhf(s * inverse_softcap);
      s = softcap * t;
      cap_slope = 1 - t * t;
    }
    if (slope != 0) s -= slope * static_cast<float>(abs(i + offset - j));
    if (bias && inside) {
      const std::int64_t at = i * bias_row + j;
      s += bias_fp32 ? reinterpret_cast<const float*>(bias)[at]
                     : to_float<T>(reinterpret_cast<const ElementType<T>*>(bias)[at]);
    }
    return s;
  }

  __device__ __forceinline__ bool keeps(int i, int j) const {
    return philox_word(seed, b, h, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(j)) >= threshold;
  }
};

}  // namespace strobe::cuda
