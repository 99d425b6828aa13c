// Computes e^x with plain arithmetic that compilers vectorize; std::exp would be one call per element. Used by
// activation.h and softmax.h.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace strobe::ops {
namespace {  // separate copy per instruction set

// Returns e^x with an error of about 1 ulp. The result is 0 or infinity beyond the range of fp32, and NaN for NaN.
inline float exponential(float x) {
  x = x < -110 ? -110 : x;  // limits n, so that the two factors below can represent 2^n; keeps NaN
  x = x > 100 ? 100 : x;
  const float magic = 0x1.8p23f;  // adding it rounds to an integer, which is then in the low bits
  const float shifted = x * 0x1.715476p0f + magic;
  const float n = shifted - magic;
  // rest = x - n ln 2, with ln 2 as the sum of two numbers. The first has 15 bits, so n times it is exact without FMA.
  const float rest = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
  float y = 0x1.6a1a72p-10f;  // e^rest = 1 + rest + rest^2 y: minimax polynomial on +-(ln 2) / 2
  y = y * rest + 0x1.123fc6p-7f;
  y = y * rest + 0x1.555916p-5f;
  y = y * rest + 0x1.55548ap-3f;
  y = y * rest + 0x1.fffffcp-2f;
  y = y * (rest * rest) + rest + 1;
  // Multiplies by 2^n as two factors, because 2^n itself may be out of range where the result is not.
  const auto exponent = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) - 0x4b400000u);
  const std::int32_t half = exponent >> 1;
  const auto power = [](std::int32_t of) { return std::bit_cast<float>(static_cast<std::uint32_t>(of + 127) << 23); };
  return y * power(half) * power(exponent - half);
}

inline double exponential(double x) { return std::exp(x); }

}  // namespace
}  // namespace strobe::ops
