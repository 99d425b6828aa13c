// Packing for engines on AVX-512 that multiply bf16, whose N panels hold pairs of steps: blocks of 32 x 32 elements,
// transposed in registers as 32-bit pairs. bf16 as it is, the same results as pack.h, faster; or fp32 in parts
// (parts.h), where a chunk is that of the first parts, then that of the second and so on. Engines inherit it.
#pragma once

#include "attention/cpu/isa.h"
#include "attention/cpu/isa/arithmetic.h"
#include "attention/cpu/isa/parts.h"
#include "attention/cpu/isa/store.h"
#include "core/simd.h"

namespace strobe::cpu {
namespace {

// 32 neighbours of a row.
template <int Parts>
struct Words {
  __m512i part[Parts];
};

// The first `count` of 32 or 16 lanes.
STROBE_INLINE __mmask32 first_words(int count) { return count >= 32 ? ~__mmask32{0} : (__mmask32{1} << count) - 1; }
STROBE_INLINE __mmask16 first_floats(int count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffff : count <= 0 ? 0 : (1 << count) - 1);
}

// A bf16 source, zeros beyond its ends; remembers whether something was not finite.
struct Bf16Reader {
  static constexpr int kParts = 1;
  const Pack& pack;
  __mmask32 met = 0;

  STROBE_INLINE Words<1> row(int r, int col) {
    const int count = pack.cols - col;
    if (r >= pack.count || count <= 0 || !pack.rows[r]) return {_mm512_setzero_si512()};
    const auto* from = static_cast<const std::uint16_t*>(pack.rows[r]);
    const __mmask32 given = first_words(count);
    const __m512i x = pack.col_stride == 0 ? _mm512_maskz_set1_epi16(given, static_cast<short>(*from))
                                           : _mm512_maskz_loadu_epi16(given, from + col);
    const __m512i exponent = _mm512_set1_epi16(0x7f80);
    met |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(x, exponent), exponent);
    return {x};
  }
  bool odd() const { return met != 0; }
};

// An fp32 source in parts, likewise; remembers the largest value. What is not finite counts as larger than any.
template <int Parts>
struct SplitReader {
  static constexpr int kParts = Parts;
  static constexpr int kAhead = 24;  // rows; of narrower ones that follow, columns past their end are fetched in vain
  const Pack& pack;
  __m512i largest = _mm512_setzero_si512();  // bits of |x|

  STROBE_INLINE Words<Parts> row(int r, int col) { return in_parts(half_row(r, col), half_row(r, col + 16)); }

  // 16 neighbours of a row.
  STROBE_INLINE F32 half_row(int r, int col) {
    const int count = pack.cols - col;
    if (r >= pack.count || count <= 0 || !pack.rows[r]) return F32{};
    const auto* from = static_cast<const float*>(pack.rows[r]);
    if (r + kAhead < pack.count + pack.following && pack.rows[r + kAhead]) {
      __builtin_prefetch(static_cast<const float*>(pack.rows[r + kAhead]) + col);
    }
    const __mmask16 given = first_floats(count);
    const __m512 x = pack.col_stride == 0 ? _mm512_maskz_mov_ps(given, _mm512_set1_ps(*from))
                                          : _mm512_maskz_loadu_ps(given, from + col);
    largest = _mm512_max_epu32(largest, _mm512_castps_si512(_mm512_abs_ps(x)));
    return (F32)x;
  }
  static STROBE_INLINE Words<Parts> in_parts(F32 low_half, F32 high_half) {
    F32 low[Parts], high[Parts];
    split(low_half, low);
    split(high_half, high);
    Words<Parts> words;
    for (int i = 0; i < Parts; ++i) words.part[i] = (__m512i)_mm512_cvtne2ps_pbh((__m512)high[i], (__m512)low[i]);
    return words;
  }
  bool odd() const {
    const unsigned bits = _mm512_reduce_max_epu32(largest);
    const float value = as_float(broadcast(bits))[0];
    return bits != 0 && !(value >= kLeastOfPanel && value <= kMostOfPanel);
  }
};

template <class Reader, int M, int K>
struct PairPack {
  static constexpr int kParts = Reader::kParts;
  static constexpr bool kInterleaved = kParts > 1;  // as rows of tiles are quick to split (engine_amx.h)
  static_assert(K == 8 || K == 32);
  static_assert(kParts == 1 || (M == 32 && K == 32));

  static bool pack_m(const Pack& a) {
    Reader in{a};
    const int steps = round_up(a.cols, K), rows = round_up(a.count, M);
    for (int r = 0; r < rows; ++r) {
      for (int t = 0; t < steps; t += 32) {
        const Words<kParts> words = in.row(r, t);
        for (int part = 0; part < kParts; ++part) put_m(a, steps, r, t, part, words.part[part]);
      }
    }
    return in.odd();
  }

  static bool pack_mt(const Pack& a) {
    Reader in{a};
    const int steps = round_up(a.count, K), rows = round_up(a.cols, M);
    for (int t = 0; t < steps; t += 32) {
      for (int r = 0; r < rows; r += 32) {
        if constexpr (kParts > 1) {  // transposed before it is split: a third of the shuffles
          put_transposed(a, in, steps, r, t);
          put_transposed(a, in, steps, r + 16, t);
          continue;
        }
        // Pairs of steps of four columns of every eight, then of the other four.
        F32 low[kParts][16], high[kParts][16];
        for (int i = 0; i < 16; ++i) {
          const Words<kParts> even = in.row(t + 2 * i, r), odd = in.row(t + 2 * i + 1, r);
          for (int part = 0; part < kParts; ++part) {
            low[part][i] = (F32)_mm512_unpacklo_epi16(even.part[part], odd.part[part]);
            high[part][i] = (F32)_mm512_unpackhi_epi16(even.part[part], odd.part[part]);
          }
        }
        for (int part = 0; part < kParts; ++part) {
          put_columns(a, steps, rows, r, t, part, low[part]);
          put_columns(a, steps, rows, r + 4, t, part, high[part]);
        }
      }
    }
    return in.odd();
  }

  static bool pack_n(const Pack& a) {
    Reader in{a};
    const int steps = round_up(a.cols, K);
    for (int t = 0; t < steps; t += 32) {
      for (int first = 0; first < 32; first += 16) {
        F32 v[kParts][16];
        for (int i = 0; i < 16; ++i) {
          const Words<kParts> words = in.row(first + i, t);
          for (int part = 0; part < kParts; ++part) v[part][i] = (F32)words.part[part];
        }
        for (int part = 0; part < kParts; ++part) {
          transpose(v[part]);
          for (int i = 0; i < 16 && t + 2 * i < steps; ++i) {
            put(a, (t + 2 * i) * 32 + first * 2, part, (__m512i)v[part][i]);
          }
        }
      }
    }
    return in.odd();
  }

  static bool pack_nt(const Pack& a) {
    Reader in{a};
    // Word 2 i from column i of the even step, word 2 i + 1 from the odd one; then the same 16 columns later.
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37,
                                         5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    const int steps = round_up(a.count, K), cols = round_up(a.cols, 32);
    for (int c = 0; c < cols; c += 32) {
      for (int t = 0; t < steps; t += 2) {
        const int step = kInterleaved ? t - t % K / 2 : t;
        const Words<kParts> even = in.row(step, c), odd = in.row(step + (kInterleaved ? K / 2 : 1), c);
        const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(c) * steps + t * 32;
        for (int part = 0; part < kParts; ++part) {
          put(a, at, part, _mm512_permutex2var_epi16(even.part[part], low, odd.part[part]));
          put(a, at + 32, part, _mm512_permutex2var_epi16(even.part[part], high, odd.part[part]));
        }
      }
    }
    return in.odd();
  }

 private:
  // One part of the elements from `at` on.
  STROBE_INLINE static void put(const Pack& a, std::ptrdiff_t at, int part, __m512i x) {
    if constexpr (kParts > 1) at += (at / (M * K) * (kParts - 1) + part) * (M * K);
    _mm512_storeu_si512(static_cast<std::uint16_t*>(a.out) + at, x);
  }

  // Steps [t, t + 32) of row r of the M panels; those from `steps` on do not exist.
  STROBE_INLINE static void put_m(const Pack& a, int steps, int r, int t, int part, __m512i x) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(r / M) * steps * M + t * M + r % M * K;
    if constexpr (K == 32) {
      put(a, at, part, x);
    } else {
      auto* chunk = static_cast<__m128i_u*>(static_cast<void*>(static_cast<std::uint16_t*>(a.out) + at));
      _mm_storeu_si128(chunk, _mm512_castsi512_si128(x));
      if (t + 8 < steps) _mm_storeu_si128(chunk + M, _mm512_extracti32x4_epi32(x, 1));
      if (t + 16 < steps) _mm_storeu_si128(chunk + 2 * M, _mm512_extracti32x4_epi32(x, 2));
      if (t + 24 < steps) _mm_storeu_si128(chunk + 3 * M, _mm512_extracti32x4_epi32(x, 3));
    }
  }

  // Steps [t, t + 32) of the columns [r, r + 16), in parts.
  static void put_transposed(const Pack& a, Reader& in, int steps, int r, int t) {
    F32 low[16], high[16];
    for (int i = 0; i < 16; ++i) low[i] = in.half_row(t + i, r);
    for (int i = 0; i < 16; ++i) high[i] = in.half_row(t + 16 + i, r);
    transpose(low);
    transpose(high);
    for (int i = 0; i < 16; ++i) {
      const Words<kParts> words = Reader::in_parts(low[i], high[i]);
      for (int part = 0; part < kParts; ++part) put_m(a, steps, r + i, t, part, words.part[part]);
    }
  }

  // Transposes 16 pairs of steps of the columns r, r + 1, r + 2, r + 3, r + 8, ... and stores each as a row.
  static void put_columns(const Pack& a, int steps, int rows, int r, int t, int part, F32 (&v)[16]) {
    transpose(v);
    for (int i = 0; i < 16; ++i) {
      const int row = r + i / 4 * 8 + i % 4;
      if (row < rows) put_m(a, steps, row, t, part, (__m512i)v[i]);
    }
  }
};

}  // namespace
}  // namespace strobe::cpu
