// Vector loads and stores that convert to and from any element type, and a square transpose. Compiled once per
// instruction set, like simd.h.
#pragma once

#include <cstddef>

#include "core/simd.h"
#include "strobe/dtype.h"

namespace strobe::cpu {
namespace {

// Loads kLanes consecutive elements of `dtype` as fp32.
STROBE_INLINE F32 load_as(const void* from, DType dtype, int at) {
  if (dtype == DType::fp32) return load(static_cast<const float*>(from) + at);
  const U16 bits = load(static_cast<const std::uint16_t*>(from) + at);
  return dtype == DType::fp16 ? from_fp16(bits) : from_bf16(bits);
}
STROBE_INLINE void store_as(void* to, DType dtype, int at, F32 v) {
  if (dtype == DType::fp32) return store(static_cast<float*>(to) + at, v);
  store(static_cast<std::uint16_t*>(to) + at, dtype == DType::fp16 ? to_fp16(v) : to_bf16(v));
}
// Load or store only the first `count` lanes; load_some sets the other lanes to 0.
inline F32 load_some(const void* from, DType dtype, int at, int count) {
  alignas(64) char copy[sizeof(F32)] = {};
  const int size = dtype == DType::fp32 ? 4 : 2;
  __builtin_memcpy(copy, static_cast<const char*>(from) + at * size, static_cast<std::size_t>(count * size));
  return load_as(copy, dtype, 0);
}
inline void store_some(void* to, DType dtype, int at, F32 v, int count) {
  alignas(64) char copy[sizeof(F32)];
  const int size = dtype == DType::fp32 ? 4 : 2;
  store_as(copy, dtype, 0, v);
  __builtin_memcpy(static_cast<char*>(to) + at * size, copy, static_cast<std::size_t>(count * size));
}

// Selects lanes of a (index 0 to kLanes - 1) or b (index kLanes and above). clang has no shuffle with a vector of
// indices.
STROBE_INLINE F32 shuffle(F32 a, F32 b, I32 index) {
#ifdef __clang__
  F32 result{};
  for (int l = 0; l < kLanes; ++l) result[l] = index[l] < kLanes ? a[index[l]] : b[index[l] - kLanes];
  return result;
#else
  return __builtin_shuffle(a, b, index);
#endif
}

// One round of transpose(): for all pairs of vectors `Half` apart, swaps the off-diagonal blocks of Half x Half lanes.
template <int Half>
STROBE_INLINE void swap_blocks(F32 (&v)[kLanes]) {
  I32 upper, lower;
  for (int l = 0; l < kLanes; ++l) {
    upper[l] = (l & Half) ? l - Half + kLanes : l;
    lower[l] = (l & Half) ? l + kLanes : l + Half;
  }
  for (int i = 0; i < kLanes; ++i) {
    if (i & Half) continue;
    const F32 a = v[i], b = v[i + Half];
    v[i] = shuffle(a, b, upper);
    v[i + Half] = shuffle(a, b, lower);
  }
}
// Transposes a kLanes x kLanes matrix in registers, in log2(kLanes) rounds.
STROBE_INLINE void transpose(F32 (&v)[kLanes]) {
  if constexpr (kLanes >= 16) swap_blocks<8>(v);
  if constexpr (kLanes >= 8) swap_blocks<4>(v);
  swap_blocks<2>(v);
  swap_blocks<1>(v);
}

}  // namespace
}  // namespace strobe::cpu
