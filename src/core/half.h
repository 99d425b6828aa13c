// Scalar conversions between fp32 and fp16 or bf16, rounding to nearest even. Vector code uses simd.h.
#pragma once

#include <bit>
#include <cstdint>

#include "strobe/dtype.h"

namespace strobe {

inline float bf16_to_float(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

inline std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x0040u);  // quiet NaN
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline float fp16_to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t rest = half & 0x7fffu;
  if (rest >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));  // Inf, NaN
  // Multiplication moves the exponent from bias 15 to 127 and normalises subnormals.
  const float magnitude = std::bit_cast<float>(rest << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

inline std::uint16_t float_to_fp16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);   // NaN
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // rounds to Inf
  if (magnitude < 0x38800000u) {  // subnormal half: adding 0.5 aligns its last bit to 2^-24 and rounds to even
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

// Loads element `index` of an array of `dtype` as fp32.
inline float load_element(const void* data, DType dtype, std::int64_t index) {
  switch (dtype) {
    case DType::fp32: return static_cast<const float*>(data)[index];
    case DType::fp16: return fp16_to_float(static_cast<const std::uint16_t*>(data)[index]);
    case DType::bf16: return bf16_to_float(static_cast<const std::uint16_t*>(data)[index]);
  }
  return 0;
}

inline void store_element(void* data, DType dtype, std::int64_t index, float value) {
  switch (dtype) {
    case DType::fp32: static_cast<float*>(data)[index] = value; return;
    case DType::fp16: static_cast<std::uint16_t*>(data)[index] = float_to_fp16(value); return;
    case DType::bf16: static_cast<std::uint16_t*>(data)[index] = float_to_bf16(value); return;
  }
}

// Rounds a value to `dtype` and converts it back to fp32.
inline float round_to(DType dtype, float value) {
  switch (dtype) {
    case DType::fp32: return value;
    case DType::fp16: return fp16_to_float(float_to_fp16(value));
    case DType::bf16: return bf16_to_float(float_to_bf16(value));
  }
  return value;
}

}  // namespace strobe
