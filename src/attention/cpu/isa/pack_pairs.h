// Packing for the AVX-512 bf16 engines. Their N panels keep two steps of a column adjacent. pack_n and pack_mt
// therefore transpose units of 32 bits (two bf16) in registers, in blocks of up to 32 x 32 elements. The results equal
// those of pack.h. EngineAvx512Bf16 and EngineAmx<1> inherit PairPack. isa.h defines panels, chunks and steps.
#pragma once

#include "attention/cpu/isa.h"
#include "attention/cpu/isa/arithmetic.h"
#include "attention/cpu/isa/given_rows.h"
#include "core/simd.h"
#include "core/simd_memory.h"

namespace strobe::cpu {
namespace {

// Reads a bf16 source. Records if a value is not finite.
struct Bf16Reader {
  const Pack& pack;
  __mmask32 met = 0;

  // Returns columns [col, col + 32) of row r. Given = true requires that all 32 exist in the source (all_given()). With
  // false, elements outside the source are zeros.
  template <bool Given>
  STROBE_INLINE __m512i row(int r, int col) {
    const __m512i x = Given ? _mm512_loadu_si512(static_cast<const std::uint16_t*>(pack.rows[r]) + col) : some(r, col);
    const __m512i exponent = _mm512_set1_epi16(0x7f80);
    met |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(x, exponent), exponent);
    return x;
  }
  bool odd() const { return met != 0; }

 private:
  STROBE_INLINE __m512i some(int r, int col) const {
    const int count = pack.cols - col;
    if (r >= pack.count || count <= 0 || !pack.rows[r]) return _mm512_setzero_si512();
    const auto* from = static_cast<const std::uint16_t*>(pack.rows[r]);
    const __mmask32 there = count >= 32 ? ~__mmask32{0} : (__mmask32{1} << count) - 1;
    return pack.col_stride == 0 ? _mm512_maskz_set1_epi16(there, static_cast<short>(*from))
                                : _mm512_maskz_loadu_epi16(there, from + col);
  }
};

template <int M, int K>
struct PairPack {
  static_assert(K == 8 || K == 32);
  static_assert(M % 8 == 0);

  static bool pack_m(const Pack& a) {
    Bf16Reader in{a};
    const int steps = round_up(a.cols, K), rows = round_up(a.count, M);
    for (int r = 0; r < rows; r += 8) {
      for (int t = 0; t < steps; t += 32) {
        all_given(a, r, 8, t, 32) ? put_rows<true>(a, in, steps, r, t) : put_rows<false>(a, in, steps, r, t);
      }
    }
    return in.odd();
  }

  static bool pack_mt(const Pack& a) {
    Bf16Reader in{a};
    const int steps = round_up(a.count, K), rows = round_up(a.cols, M);
    for (int t = 0; t < steps; t += 32) {
      for (int r = 0; r < rows; r += 32) {
        all_given(a, t, 32, r, 32) ? put_transposed<true>(a, in, steps, rows, r, t)
                                   : put_transposed<false>(a, in, steps, rows, r, t);
      }
    }
    return in.odd();
  }

  static bool pack_n(const Pack& a) {
    Bf16Reader in{a};
    const int steps = round_up(a.cols, K);
    for (int t = 0; t < steps; t += 32) {
      for (int first = 0; first < 32; first += 16) {
        F32 v[16];
        if (all_given(a, first, 16, t, 32)) {
          for (int i = 0; i < 16; ++i) v[i] = (F32)in.row<true>(first + i, t);
        } else {
          for (int i = 0; i < 16; ++i) v[i] = (F32)in.row<false>(first + i, t);
        }
        transpose(v);
        for (int i = 0; i < 16 && t + 2 * i < steps; ++i) put(a, (t + 2 * i) * 32 + first * 2, (__m512i)v[i]);
      }
    }
    return in.odd();
  }

  static bool pack_nt(const Pack& a) {
    Bf16Reader in{a};
    const int steps = round_up(a.count, K), cols = round_up(a.cols, 32);
    for (int c = 0; c < cols; c += 32) {
      for (int t = 0; t < steps; t += 8) {
        const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(c) * steps + t * 32;
        all_given(a, t, 8, c, 32) ? put_steps<true>(a, in, t, c, at) : put_steps<false>(a, in, t, c, at);
      }
    }
    return in.odd();
  }

 private:
  // Stores 32 elements to a.out at offset `at`.
  STROBE_INLINE static void put(const Pack& a, std::ptrdiff_t at, __m512i x) {
    _mm512_storeu_si512(static_cast<std::uint16_t*>(a.out) + at, x);
  }

  // Stores steps [t, t + 32) of row r of the M panels. Steps >= `steps` are not stored.
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

  // Packs steps [t, t + 32) of rows [r, r + 8) into M panels.
  template <bool Given>
  STROBE_INLINE static void put_rows(const Pack& a, Bf16Reader& in, int steps, int r, int t) {
    for (int i = r; i < r + 8; ++i) put_m(a, steps, i, t, in.row<Given>(i, t));
  }

  // Packs 8 steps x 32 columns into an N panel, at offset `at`.
  template <bool Given>
  STROBE_INLINE static void put_steps(const Pack& a, Bf16Reader& in, int t, int c, std::ptrdiff_t at) {
    // low: word 2 i is column i of the even step, word 2 i + 1 column i of the odd step, for columns 0 to 15. high: the
    // same for columns 16 to 31.
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37,
                                         5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    for (int i = 0; i < 8; i += 2) {
      const __m512i even = in.row<Given>(t + i, c), odd = in.row<Given>(t + i + 1, c);
      put(a, at + i * 32, _mm512_permutex2var_epi16(even, low, odd));
      put(a, at + i * 32 + 32, _mm512_permutex2var_epi16(even, high, odd));
    }
  }

  // Packs rows [r, r + 32) of M panels for steps [t, t + 32), which are rows of the source.
  template <bool Given>
  static void put_transposed(const Pack& a, Bf16Reader& in, int steps, int rows, int r, int t) {
    // low holds the step pairs of columns 0 to 3 of every eight, high those of columns 4 to 7.
    F32 low[16], high[16];
    for (int i = 0; i < 16; ++i) {
      const __m512i even = in.row<Given>(t + 2 * i, r), odd = in.row<Given>(t + 2 * i + 1, r);
      low[i] = (F32)_mm512_unpacklo_epi16(even, odd);
      high[i] = (F32)_mm512_unpackhi_epi16(even, odd);
    }
    put_columns(a, steps, rows, r, t, low);
    put_columns(a, steps, rows, r + 4, t, high);
  }

  // Transposes 16 step pairs of columns r to r + 3, r + 8 to r + 11, ... and stores each column as a row of the M
  // panels.
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
