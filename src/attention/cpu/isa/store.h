// Stores accumulators to the caller's rows, converted to their type, and computes row-wise dot products. Used by every
// engine.
#pragma once

#include "attention/cpu/isa.h"
#include "core/simd_memory.h"

namespace strobe::cpu {
namespace {

// Returns a / b from the rounded inverse of b and one correction, in a quarter of the time of a division. The result
// equals a / b unless the quotient or the remainder is subnormal; the sign of a zero may differ. The result is NaN if
// one of the inputs or their products is not finite; the caller must then divide.
STROBE_INLINE F32 corrected_quotient(F32 a, F32 b, F32 inverse) {
  const F32 quotient = a * inverse;
  return fma(fma(-quotient, b, a), inverse, quotient);
}
STROBE_INLINE bool has_nan(F32 sum) { return any(sum != sum); }

// True on NEON, whose cores have short scheduler queues (see store_squares). Not measured on other instruction sets.
inline constexpr bool kStoresSquares = kFused && kLanes == 4;

// Stores kLanes lanes, from lane `first` on, as fp32, in blocks of 2 kLanes columns. Returns the number of columns
// stored; the caller must store the rest. Returns 0 if a result is not finite, since it may then need a division. Two
// squares of kLanes x kLanes are interleaved. One after the other, their chains of dependent operations would fill
// Neoverse's scheduler queues.
template <class Engine>
int store_squares(const StoreLanes& a, int first) {
  constexpr int kN = Engine::kN, kAtOnce = 2 * kLanes;
  const F32 factor = broadcast(a.factor), divisor = load(a.divisor + first), inverse = 1.0f / divisor;
  const float* const from = a.c + first;
  float* row[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) row[lane] = static_cast<float*>(a.rows[first + lane]);
  const int cols = a.cols / kAtOnce * kAtOnce;
  F32 probe[kLanes] = {};  // sums of x * 0, NaN if an x is not finite
  for (int c = 0; c < cols; c += kAtOnce) {
    F32 x[kAtOnce], quotient[kAtOnce];
    for (int i = 0; i < kAtOnce; ++i) x[i] = load(from + (c + i) * kN) * factor;
    for (int i = 0; i < kAtOnce; ++i) quotient[i] = x[i] * inverse;
    for (int i = 0; i < kAtOnce; ++i) x[i] = fma(-quotient[i], divisor, x[i]);
    for (int i = 0; i < kAtOnce; ++i) quotient[i] = fma(x[i], inverse, quotient[i]);
    for (int i = 0; i < kAtOnce; ++i) probe[i % kLanes] = fma(quotient[i], F32{}, probe[i % kLanes]);
    for (int square = 0; square < kAtOnce; square += kLanes) {
      F32 v[kLanes];
      for (int i = 0; i < kLanes; ++i) v[i] = quotient[square + i];
      transpose(v);
      for (int lane = 0; lane < kLanes; ++lane) store(row[lane] + c + square, v[lane]);
    }
  }
  return has_nan(sum_all(probe)) ? 0 : cols;
}

#if defined(__AVX512BF16__)
// Stores kLanes lanes, from lane `first` on, as bf16, in blocks of 2 kLanes columns. Returns the number of columns
// stored; the caller must store the rest. The function stops at a block with a NaN, which may need a division. Two
// adjacent columns become one 32-bit element before the transpose, which halves the shuffles.
template <class Engine>
int store_pairs(const StoreLanes& a, int first, F32 divisor, F32 inverse) {
  constexpr int kAtOnce = 2 * kLanes;
  // Permutation that interleaves the words of the lower and the upper half.
  const __m512i interleave = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22,
                                              6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const auto column = [&](int c) STROBE_INLINE_LAMBDA {
    return corrected_quotient(load(a.c + c * Engine::kN + first) * a.factor, divisor, inverse);
  };
  int c = 0;
  for (; c + kAtOnce <= a.cols; c += kAtOnce) {
    F32 v[kLanes], sums[4]{};
    for (int i = 0; i < kLanes; ++i) {
      const F32 even = column(c + 2 * i), odd = column(c + 2 * i + 1);
      v[i] = (F32)_mm512_permutexvar_epi16(interleave, (__m512i)_mm512_cvtne2ps_pbh((__m512)odd, (__m512)even));
      sums[i % 4] += even + odd;
    }
    if (has_nan(sum_all(sums))) break;
    transpose(v);
    for (int lane = 0; lane < kLanes; ++lane) {
      _mm512_storeu_si512(static_cast<std::uint16_t*>(a.rows[first + lane]) + c, (__m512i)v[lane]);
    }
  }
  return c;
}
#endif

template <class Engine>
void store_lanes(const StoreLanes& a) {
  constexpr int kN = Engine::kN;
  if constexpr (kStoresSquares) {  // prefetches the output's lines, since rows are written one vector at a time
    const int bytes = a.cols * (a.dtype == DType::fp32 ? 4 : 2);
    for (int lane = 0; lane < a.lanes; ++lane) {
      for (int at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<char*>(a.rows[lane]) + at, 1);
    }
  }
  for (int first = 0; first < a.lanes; first += kLanes) {
    const F32 divisor = load(a.divisor + first), inverse = 1.0f / divisor;
    const int lanes = a.lanes - first < kLanes ? a.lanes - first : kLanes;
    int c = 0;
    if constexpr (kStoresSquares) {
      if (a.dtype == DType::fp32 && lanes == kLanes) c = store_squares<Engine>(a, first);
    }
#if defined(__AVX512BF16__)
    if (a.dtype == DType::bf16 && lanes == kLanes) c = store_pairs<Engine>(a, first, divisor, inverse);
#endif
    for (; c < a.cols; c += kLanes) {
      const int cols = a.cols - c < kLanes ? a.cols - c : kLanes;
      const auto column = [&](int i) STROBE_INLINE_LAMBDA {
        return i < cols ? load(a.c + (c + i) * kN + first) * a.factor : F32{};
      };
      F32 v[kLanes];
      if constexpr (kFused) {
        for (int i = 0; i < kLanes; ++i) v[i] = corrected_quotient(column(i), divisor, inverse);
      }
      if (!kFused || has_nan(sum_all(v))) {
        for (int i = 0; i < kLanes; ++i) v[i] = column(i) / divisor;
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

// Returns a . b of two fp32 rows, summed in float64, because backward subtracts delta from values that may be almost
// equal.
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

// Returns a_r . b_r for any type and column stride, summed in a vector of type Sum.
template <class Sum>
float dot_row(const DotRows& a, int r) {
  Sum sum{};
  for (int c = 0; c < a.cols; c += kLanes) {
    const int count = a.cols - c < kLanes ? a.cols - c : kLanes;
    const bool whole = count == kLanes;
    F32 x;
    if (a.a_col_stride == 0) {
      x = broadcast(load_some(a.a[r], a.dtype, 0, 1)[0]);  // lanes past the end multiply zeros of b
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
