// Operations on contiguous rows of floats, written as loops that the compiler vectorises: conversions, rounding to a
// 16-bit type, and softmax. Used only by the files of cpu/.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/half.h"

namespace strobe::standard {

inline constexpr int kLanes = 16;  // independent partial results of a reduction
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Returns bf16_to_float(float_to_bf16(x)), computed without branches. round_fp16 does the same for fp16.
inline float round_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
  return std::bit_cast<float>((bits & 0x7fffffffu) > 0x7f800000u ? (bits | 0x00400000u) & 0xffff0000u : rounded);
}

inline float round_fp16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u)) & 0xffffe000u;
  const float subnormal = (std::bit_cast<float>(magnitude) + 0.5f) - 0.5f;  // the last place of 0.5 is 2^-24
  std::uint32_t rounded = normal >= 0x47800000u ? 0x7f800000u : normal;     // 65536 and above: Inf
  rounded = magnitude < 0x38800000u ? std::bit_cast<std::uint32_t>(subnormal) : rounded;
  rounded = magnitude > 0x7f800000u ? 0x7fc00000u : rounded;
  return std::bit_cast<float>(rounded | (bits & 0x80000000u));
}

inline void round_row(DType dtype, float* row, std::int64_t n) {
  if (dtype == DType::bf16) {
    for (std::int64_t j = 0; j < n; ++j) row[j] = round_bf16(row[j]);
  } else if (dtype == DType::fp16) {
    for (std::int64_t j = 0; j < n; ++j) row[j] = round_fp16(row[j]);
  }
}

// widen_fp16() and narrow_fp16() return the same as fp16_to_float() and float_to_fp16(), but have no branches.
inline float widen_fp16(std::uint16_t half) {
  const std::uint32_t rest = half & 0x7fffu;
  const float subnormal = static_cast<float>(static_cast<std::int32_t>(rest)) * 0x1p-24f;
  std::uint32_t bits = (rest << 13) + 0x38000000u;
  bits = rest < 0x400u ? std::bit_cast<std::uint32_t>(subnormal) : bits;
  bits = rest >= 0x7c00u ? bits + 0x38000000u : bits;  // Inf, NaN
  return std::bit_cast<float>(bits | (half & 0x8000u) << 16);
}

inline std::uint16_t narrow_fp16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t aligned = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f);
  std::uint32_t half = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  half = magnitude < 0x38800000u ? aligned - 0x3f000000u : half;
  half = magnitude >= 0x477ff000u ? 0x7c00u : half;
  half = magnitude > 0x7f800000u ? 0x7e00u : half;
  return static_cast<std::uint16_t>(half | (bits >> 16 & 0x8000u));
}

inline std::uint16_t narrow_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<std::uint16_t>(((bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x00400000u : rounded) >> 16);
}

// Converts n elements to floats. `step` is their stride: 1, or 0 if the dimension is expanded.
inline void widen_row(DType dtype, const void* from, std::int64_t step, std::int64_t n, float* to) {
  if (step != 1) {
    for (std::int64_t c = 0; c < n; ++c) to[c] = load_element(from, dtype, c * step);
  } else if (dtype == DType::fp32) {
    for (std::int64_t c = 0; c < n; ++c) to[c] = static_cast<const float*>(from)[c];
  } else if (dtype == DType::fp16) {
    for (std::int64_t c = 0; c < n; ++c) to[c] = widen_fp16(static_cast<const std::uint16_t*>(from)[c]);
  } else {
    for (std::int64_t c = 0; c < n; ++c) to[c] = bf16_to_float(static_cast<const std::uint16_t*>(from)[c]);
  }
}

inline void narrow_row(DType dtype, const float* from, std::int64_t n, void* to) {
  if (dtype == DType::fp32) {
    for (std::int64_t c = 0; c < n; ++c) static_cast<float*>(to)[c] = from[c];
  } else if (dtype == DType::fp16) {
    for (std::int64_t c = 0; c < n; ++c) static_cast<std::uint16_t*>(to)[c] = narrow_fp16(from[c]);
  } else {
    for (std::int64_t c = 0; c < n; ++c) static_cast<std::uint16_t*>(to)[c] = narrow_bf16(from[c]);
  }
}

inline void add_bias(DType dtype, const void* bias, std::int64_t n, float* row) {
  if (dtype == DType::fp32) {
    for (std::int64_t j = 0; j < n; ++j) row[j] += static_cast<const float*>(bias)[j];
  } else {
    for (std::int64_t j = 0; j < n; ++j) row[j] += load_element(bias, dtype, j);
  }
}

// Returns exp(x) for x <= 0 to about one ulp, and 0 for x < -87. Unlike the C library's exp, it vectorises here.
inline float exp_negative(float x) {
  constexpr float kRound = 0x1.8p23f;  // adding this rounds to an integer, which is then in the low bits
  const float shifted = x * 0x1.715476p0f + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;  // ln 2 in two parts
  float p = 0x1.6d43b4p-10f;                                     // (exp(r) - 1 - r) / r^2, |r| <= ln 2 / 2
  p = p * r + 0x1.120be8p-7f;
  p = p * r + 0x1.5554e8p-5f;
  p = p * r + 0x1.5554dcp-3f;
  p = p * r + 0.5f;
  p = (p * r) * r + r;
  const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(shifted) + 127u) << 23;
  const float value = p * std::bit_cast<float>(exponent) + std::bit_cast<float>(exponent);
  return x < -87.0f ? 0.0f : value;
}

// Maps the bits of a float to an integer, so that the integers are ordered like the floats. Applied twice, it returns
// the bits. A positive NaN is above infinity. Compilers vectorise the maximum of integers even without -ffast-math.
inline std::int32_t order_of(std::int32_t bits) { return bits ^ ((bits >> 31) & 0x7fffffff); }

inline float max_of(const float* row, std::int64_t n) {
  std::int32_t max = order_of(std::bit_cast<std::int32_t>(-kInfinity));
  for (std::int64_t j = 0; j < n; ++j) max = std::max(max, order_of(std::bit_cast<std::int32_t>(row[j])));
  return std::bit_cast<float>(order_of(max));
}

inline float sum_of(const float* row, std::int64_t n) {
  float lanes[kLanes] = {};
  std::int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += row[j + lane];
  }
  float sum = 0;
  for (; j < n; ++j) sum += row[j];
  for (const float lane : lanes) sum += lane;
  return sum;
}

inline float dot_of(const float* a, const float* b, std::int64_t n) {
  float lanes[kLanes] = {};
  std::int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += a[j + lane] * b[j + lane];
  }
  float sum = 0;
  for (; j < n; ++j) sum += a[j] * b[j];
  for (const float lane : lanes) sum += lane;
  return sum;
}

struct Softmax {
  float lse;   // -inf if every key is masked, so that all probabilities are 0
  float sink;  // the sink's own probability
};

// Converts logits to probabilities in place. `sink` is an additional logit, or null.
inline Softmax softmax_row(float* row, std::int64_t n, const float* sink) {
  const float highest = max_of(row, n);
  const float max = sink && *sink > highest ? *sink : highest;
  if (n == 0 || (max == -kInfinity && !std::isnan(sum_of(row, n)))) {  // a bias of -inf masks the whole row
    for (std::int64_t j = 0; j < n; ++j) row[j] = 0;
    return {-kInfinity, 0};
  }
  for (std::int64_t j = 0; j < n; ++j) row[j] = exp_negative(row[j] - max);
  const float sink_part = sink ? std::exp(*sink - max) : 0.0f;
  const float sum = sum_of(row, n) + sink_part;
  const float factor = 1 / sum;
  for (std::int64_t j = 0; j < n; ++j) row[j] *= factor;
  return {max + std::log(sum), sink_part * factor};
}

}  // namespace strobe::standard
