// fp32 as a sum of three bf16 numbers, for engines that multiply bf16 alone: x = h + m + l with 8 bits each, exactly.
// A product is six of theirs; those left out are below 2^-24 of it and have either sign. Included by engine_amx.h.
#pragma once

#include "core/simd.h"

namespace strobe::cpu {
namespace {

// The parts of x, largest first, as floats whose low 16 bits are zeros; the last is what is left, 8 bits as well. x is
// finite and below 2^127. Rounded to nearest, parts have either sign, and so have the products left out.
template <int Parts>
STROBE_INLINE void split(F32 x, F32 (&part)[Parts]) {
#pragma GCC unroll 3
  for (int i = 0; i + 1 < Parts; ++i) {
    part[i] = as_float((as_bits(x) + 0x8000u) & 0xffff0000u);
    x -= part[i];
  }
  part[Parts - 1] = x;
}

// The same, cut instead of rounded, for one side of a product whose other side is rounded.
template <int Parts>
STROBE_INLINE void split_quickly(F32 x, F32 (&part)[Parts]) {
#pragma GCC unroll 3
  for (int i = 0; i + 1 < Parts; ++i) {
    part[i] = as_float(as_bits(x) & 0xffff0000u);
    x -= part[i];
  }
  part[Parts - 1] = x;
}

// AMX takes subnormal numbers as 0, so parts of tiny values, and tiny products, are lost. Panels of inputs therefore
// hold nothing but values of which the largest is in this range (or all are 0); then all that is lost is far below the
// rounding of the whole. Weights and dS, which may be small beside an input, are multiplied with kBoost as they are
// split: the smallest weights keep all their parts, and the largest sums, |dS| <= 2^49 times 2^20, stay finite.
inline constexpr float kLeastOfPanel = 0x1p-40f;
inline constexpr float kMostOfPanel = 0x1p20f;
inline constexpr float kPartsBoost = 0x1p32f;

}  // namespace
}  // namespace strobe::cpu
