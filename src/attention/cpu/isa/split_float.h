// Split floats (3xBF16), for engines that multiply only bf16: an fp32 number x is the exact sum of three bf16 terms of
// 8 bits each, x = h + m + l. A product of two split floats takes six of the nine bf16 products. The omitted ones are
// below 2^-24 of the result and have either sign. Included by engine_amx.h.
#pragma once

#include "core/simd.h"

namespace strobe::cpu {
namespace {

// Splits x into terms, largest first, as floats whose low 16 bits are zeros. The last term is the remainder, which also
// fits into 8 bits. |x| must be below 2^127. Terms are rounded to nearest, so they have either sign, and so do the
// omitted products.
template <int Terms>
STROBE_INLINE void split(F32 x, F32 (&term)[Terms]) {
#pragma GCC unroll 3
  for (int i = 0; i + 1 < Terms; ++i) {
    term[i] = as_float((as_bits(x) + 0x8000u) & 0xffff0000u);
    x -= term[i];
  }
  term[Terms - 1] = x;
}

// Like split(), but truncates instead of rounding. At most one operand of a matmul may be split this way, so that the
// omitted products still have either sign.
template <int Terms>
STROBE_INLINE void split_quickly(F32 x, F32 (&term)[Terms]) {
#pragma GCC unroll 3
  for (int i = 0; i + 1 < Terms; ++i) {
    term[i] = as_float(as_bits(x) & 0xffff0000u);
    x -= term[i];
  }
  term[Terms - 1] = x;
}

// AMX flushes subnormal numbers to 0, so terms of tiny values, and tiny products, are lost. Unless all values of a
// panel of inputs are 0, the largest magnitude must therefore be in [kLeastOfPanel, kMostOfPanel]. The loss is then far
// below the rounding error of the result. Probabilities and dS may be small compared with an input, so they are
// multiplied by kSplitBoost when split. The smallest probabilities then keep all their terms, and the largest sums
// (|dS| <= 2^49 times 2^20) stay finite.
inline constexpr float kLeastOfPanel = 0x1p-40f;
inline constexpr float kMostOfPanel = 0x1p20f;
inline constexpr float kSplitBoost = 0x1p32f;

}  // namespace
}  // namespace strobe::cpu
