// Natural logarithm without branches or tables. GCC vectorises loops over it (at -O3). attention/cpu/forward.cpp
// computes the log-sum-exp with it.
#pragma once

#include <bit>
#include <cstdint>

namespace strobe {

// Returns log x. x must be normal and positive. The error is at most 1e-13: relative if |log x| > 1, else absolute. NaN
// if x is not finite.
inline double natural_log(double x) {
  constexpr std::uint64_t kSqrtHalf = 0x3fe6a09e667f3bcd, kFraction = (std::uint64_t{1} << 52) - 1;
  constexpr double kLog2 = 0.69314718055994530942;
  // x = 2^e m with m in [sqrt(1/2), sqrt(2)]. The bits of the double 2^52 + k, for 0 <= k < 2^52, are those of 2^52
  // plus the integer k; here k = 1024 + e.
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x) - kSqrtHalf + (std::uint64_t{1024} << 52);
  const double e = std::bit_cast<double>((bits >> 52) | 0x4330000000000000) - (0x1p52 + 1024);
  const double m = std::bit_cast<double>((bits & kFraction) + kSqrtHalf);
  // log m = 2 atanh f
  const double f = (m - 1) / (m + 1), f2 = f * f;
  constexpr double c[] = {1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15};
  const double sum = ((((((c[6] * f2 + c[5]) * f2 + c[4]) * f2 + c[3]) * f2 + c[2]) * f2 + c[1]) * f2 + c[0]) * f2 + 1;
  return e * kLog2 + 2 * f * sum + (x - x);
}

}  // namespace strobe
