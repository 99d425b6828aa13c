// Packing for bf16 engines on AVX-512, whose N panels hold pairs of steps: blocks of 32 x 32 elements, bit for bit,
// transposed in registers as 32-bit pairs. The same results as pack.h, faster. Engines inherit it.
#pragma once

#include "attention/cpu/isa.h"
#include "attention/cpu/isa/arithmetic.h"
#include "attention/cpu/isa/store.h"
#include "core/simd.h"

namespace strobe::cpu {
namespace {

// The source as vectors of 32 bf16, zeros beyond its ends; remembers whether something was not finite.
struct PairReader {
  const Pack& pack;
  __mmask32 odd = 0;

  STROBE_INLINE __m512i row(int r, int col) {
    const int count = pack.cols - col;
    if (r >= pack.count || count <= 0 || !pack.rows[r]) return _mm512_setzero_si512();
    const auto* from = static_cast<const std::uint16_t*>(pack.rows[r]);
    const __mmask32 given = count >= 32 ? ~__mmask32{0} : (__mmask32{1} << count) - 1;
    const __m512i x = pack.col_stride == 0 ? _mm512_maskz_set1_epi16(given, static_cast<short>(*from))
                                           : _mm512_maskz_loadu_epi16(given, from + col);
    const __m512i exponent = _mm512_set1_epi16(0x7f80);
    odd |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(x, exponent), exponent);
    return x;
  }
};

template <int M, int K>
struct PairPack {
  static_assert(K == 8 || K == 32);

  static bool pack_m(const Pack& a) {
    PairReader in{a};
    const int steps = round_up(a.cols, K), rows = round_up(a.count, M);
    for (int r = 0; r < rows; ++r) {
      for (int t = 0; t < steps; t += 32) put_m(a, steps, r, t, in.row(r, t));
    }
    return in.odd != 0;
  }

  static bool pack_mt(const Pack& a) {
    PairReader in{a};
    const int steps = round_up(a.count, K), rows = round_up(a.cols, M);
    for (int t = 0; t < steps; t += 32) {
      for (int r = 0; r < rows; r += 32) {
        // Pairs of steps of four columns of every eight, then of the other four.
        F32 low[16], high[16];
        for (int i = 0; i < 16; ++i) {
          const __m512i even = in.row(t + 2 * i, r), odd = in.row(t + 2 * i + 1, r);
          low[i] = (F32)_mm512_unpacklo_epi16(even, odd);
          high[i] = (F32)_mm512_unpackhi_epi16(even, odd);
        }
        put_columns(a, steps, rows, r, t, low);
        put_columns(a, steps, rows, r + 4, t, high);
      }
    }
    return in.odd != 0;
  }

  static bool pack_n(const Pack& a) {
    PairReader in{a};
    const int steps = round_up(a.cols, K);
    for (int t = 0; t < steps; t += 32) {
      for (int first = 0; first < 32; first += 16) {
        F32 v[16];
        for (int i = 0; i < 16; ++i) v[i] = (F32)in.row(first + i, t);
        transpose(v);
        for (int i = 0; i < 16 && t + 2 * i < steps; ++i) put(a, (t + 2 * i) * 32 + first * 2, (__m512i)v[i]);
      }
    }
    return in.odd != 0;
  }

  static bool pack_nt(const Pack& a) {
    PairReader in{a};
    // Word 2 i from column i of the even step, word 2 i + 1 from the odd one; then the same 16 columns later.
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37,
                                         5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    const int steps = round_up(a.count, K), cols = round_up(a.cols, 32);
    for (int c = 0; c < cols; c += 32) {
      for (int t = 0; t < steps; t += 2) {
        const __m512i even = in.row(t, c), odd = in.row(t + 1, c);
        const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(c) * steps + t * 32;
        put(a, at, _mm512_permutex2var_epi16(even, low, odd));
        put(a, at + 32, _mm512_permutex2var_epi16(even, high, odd));
      }
    }
    return in.odd != 0;
  }

 private:
  STROBE_INLINE static void put(const Pack& a, std::ptrdiff_t at, __m512i x) {
    _mm512_storeu_si512(static_cast<std::uint16_t*>(a.out) + at, x);
  }

  // Steps [t, t + 32) of row r of the M panels; those from `steps` on do not exist.
  STROBE_INLINE static void put_m(const Pack& a, int steps, int r, int t, __m512i x) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(r / M) * steps * M + t * M + r % M * K;
    if constexpr (K == 32) {
      put(a, at, x);
    } else {
      auto* chunk = static_cast<__m128i_u*>(static_cast<void*>(static_cast<std::uint16_t*>(a.out) + at));
      _mm_storeu_si128(chunk, _mm512_castsi512_si128(x));
      if (t + 8 < steps) _mm_storeu_si128(chunk + M, _mm512_extracti32x4_epi32(x, 1));
      if (t + 16 < steps) _mm_storeu_si128(chunk + 2 * M, _mm512_extracti32x4_epi32(x, 2));
      if (t + 24 < steps) _mm_storeu_si128(chunk + 3 * M, _mm512_extracti32x4_epi32(x, 3));
    }
  }

  // Transposes 16 pairs of steps of the columns r, r + 1, r + 2, r + 3, r + 8, ... and stores each as a row.
  static void put_columns(const Pack& a, int steps, int rows, int r, int t, F32 (&v)[16]) {
    transpose(v);
    for (int i = 0; i < 16; ++i) {
      const int row = r + i / 4 * 8 + i % 4;
      if (row < rows) put_m(a, steps, row, t, (__m512i)v[i]);
    }
  }
};

}  // namespace
}  // namespace strobe::cpu
