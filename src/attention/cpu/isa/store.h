// Accumulators back to the caller's rows, in their type; and row-wise dot products. Serves every engine.
#pragma once

#include "attention/cpu/isa.h"
#include "attention/cpu/isa/simd.h"

namespace strobe::cpu {
namespace {

// kLanes values from, or to, consecutive elements of a type.
STROBE_INLINE F32 load_as(const void* from, DType dtype, int at) {
  if (dtype == DType::fp32) return load(static_cast<const float*>(from) + at);
  const U16 bits = load(static_cast<const std::uint16_t*>(from) + at);
  return dtype == DType::fp16 ? from_fp16(bits) : from_bf16(bits);
}
STROBE_INLINE void store_as(void* to, DType dtype, int at, F32 v) {
  if (dtype == DType::fp32) return store(static_cast<float*>(to) + at, v);
  store(static_cast<std::uint16_t*>(to) + at, dtype == DType::fp16 ? to_fp16(v) : to_bf16(v));
}
// The first `count` lanes only.
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

// Square transpose in registers: log2(kLanes) rounds that swap off-diagonal blocks of pairs of vectors.
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
    v[i] = __builtin_shuffle(a, b, upper);
    v[i + Half] = __builtin_shuffle(a, b, lower);
  }
}
STROBE_INLINE void transpose(F32 (&v)[kLanes]) {
  if constexpr (kLanes >= 16) swap_blocks<8>(v);
  if constexpr (kLanes >= 8) swap_blocks<4>(v);
  swap_blocks<2>(v);
  swap_blocks<1>(v);
}

template <class Engine>
void store_lanes(const StoreLanes& a) {
  constexpr int kN = Engine::kN;
  for (int first = 0; first < a.lanes; first += kLanes) {
    const F32 divisor = load(a.divisor + first);
    const int lanes = a.lanes - first < kLanes ? a.lanes - first : kLanes;
    for (int c = 0; c < a.cols; c += kLanes) {
      const int cols = a.cols - c < kLanes ? a.cols - c : kLanes;
      F32 v[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        v[i] = i < cols ? load(a.c + (c + i) * kN + first) * a.factor / divisor : F32{};
      }
      transpose(v);
      for (int lane = 0; lane < lanes; ++lane) {
        if (cols == kLanes) {
          store_as(a.rows[first + lane], a.dtype, c, v[lane]);
        } else {
          store_some(a.rows[first + lane], a.dtype, c, v[lane], cols);
        }
      }
    }
  }
}

template <class Engine>
void store_cols(const StoreCols& a) {
  constexpr int kCols = Engine::kCols;
  for (int r = 0; r < a.count; ++r) {
    for (int c = 0; c < a.cols; c += kLanes) {
      const F32 v = load(a.c + c / kCols * a.panel_stride + r * kCols + c % kCols) * a.factor;
      if (a.cols - c >= kLanes) {
        store_as(a.rows[r], a.dtype, c, v);
      } else {
        store_some(a.rows[r], a.dtype, c, v, a.cols - c);
      }
    }
  }
}

// a . b of two fp32 rows in float64: delta is subtracted from values that may be almost the same.
inline float dot_fp32(const float* a, const float* b, int cols) {
  F64 even{}, odd{};
  int c = 0;
  for (; c + 2 * kLanes <= cols; c += 2 * kLanes) {
    add_product(even, load(a + c), load(b + c));
    add_product(odd, load(a + c + kLanes), load(b + c + kLanes));
  }
  even += odd;
  double total = 0;
  for (int i = 0; i < kLanes; ++i) total += even[i];
  for (; c < cols; ++c) total += static_cast<double>(a[c]) * b[c];
  return static_cast<float>(total);
}

// a_r . b_r of any type and stride, summed in the lanes of Sum.
template <class Sum>
float dot_row(const DotRows& a, int r) {
  Sum sum{};
  for (int c = 0; c < a.cols; c += kLanes) {
    const int count = a.cols - c < kLanes ? a.cols - c : kLanes;
    const bool whole = count == kLanes;
    F32 x;
    if (a.a_col_stride == 0) {
      x = broadcast(load_some(a.a[r], a.dtype, 0, 1)[0]);  // lanes past the end meet zeros of b
    } else {
      x = whole ? load_as(a.a[r], a.dtype, c) : load_some(a.a[r], a.dtype, c, count);
    }
    add_product(sum, x, whole ? load_as(a.b[r], a.dtype, c) : load_some(a.b[r], a.dtype, c, count));
  }
  auto total = sum[0];
  for (int i = 1; i < kLanes; ++i) total += sum[i];
  return static_cast<float>(total);
}

inline void dot_rows(const DotRows& a) {
  for (int r = 0; r < a.count; ++r) {
    if (a.dtype != DType::fp32) {
      a.out[r] = dot_row<F32>(a, r);
    } else if (a.a_col_stride == 0) {
      a.out[r] = dot_row<F64>(a, r);
    } else {
      a.out[r] = dot_fp32(static_cast<const float*>(a.a[r]), static_cast<const float*>(a.b[r]), a.cols);
    }
  }
}

}  // namespace
}  // namespace strobe::cpu
