// Packs fp32 as split floats of bf16 terms (split_float.h), for AVX-512 engines with chunks of 32 x 32 elements. A
// chunk stores the first terms of all elements, then the second terms, and so on. Squares of 16 x 16 elements are read,
// transposed if the layout requires it, and then split. Reads use masks only if part of a square, or of a chunk's two
// adjacent squares, is outside the source. EngineAmx<3> inherits SplitPack. isa.h defines panels, chunks and steps.
#pragma once

#include "attention/cpu/isa.h"
#include "attention/cpu/isa/arithmetic.h"
#include "attention/cpu/isa/given_rows.h"
#include "attention/cpu/isa/split_float.h"
#include "core/simd.h"
#include "core/simd_memory.h"

namespace strobe::cpu {
namespace {

// Returns lanes whose low 16 bits are the upper half of `even` and whose high 16 bits are the upper half of `odd`.
STROBE_INLINE __m512i upper_halves(__m512i even, __m512i odd) {
  const __m512i down = _mm512_set4_epi32(0x0f0e0f0e, 0x0b0a0b0a, 0x07060706, 0x03020302);
  return _mm512_mask_shuffle_epi8(odd, 0x3333333333333333, even, down);
}

// 32 split floats: term[i] holds term i of each as 32 bf16.
template <int Terms>
struct TermWords {
  __m512i term[Terms];
};

// Reads an fp32 source. Records the largest magnitude; a value that is not finite counts as larger than any other.
class SquareReader {
 public:
  explicit SquareReader(const Pack& pack) : pack_(pack) {}

  // Returns true if the source has all of rows [r, r + 16) and columns [col, col + cols). If so, prefetches the same
  // columns of rows that are packed later.
  STROBE_INLINE bool given(int r, int col, int cols) const {
    if (!all_given(pack_, r, 16, col, cols)) return false;
    for (int at = 0; at < cols; at += 16) fetch_after(r, col + at);
    return true;
  }

  // Returns columns [col, col + 16) of row r. Given = true requires that given() returned true for them. With false,
  // elements outside the source are zeros.
  template <bool Given>
  STROBE_INLINE F32 row(int r, int col) {
    const __m512 x = Given ? _mm512_loadu_ps(static_cast<const float*>(pack_.rows[r]) + col) : some_of_row(r, col);
    largest_ = _mm512_max_epu32(largest_, _mm512_castps_si512(_mm512_abs_ps(x)));
    return (F32)x;
  }

  // Loads rows [r, r + 16) of columns [col, col + 16), transposed: v[c][i] is column col + c of row r + i.
  STROBE_INLINE void transposed(int r, int col, F32 (&v)[16]) {
    if (given(r, col, 16)) {
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) v[i] = row<true>(r + i, col);
    } else {
      for (int i = 0; i < 16; ++i) v[i] = row<false>(r + i, col);
    }
    transpose(v);
  }

  bool odd() const {
    const unsigned bits = _mm512_reduce_max_epu32(largest_);
    const float value = as_float(broadcast(bits))[0];
    return bits != 0 && !(value >= kLeastOfPanel && value <= kMostOfPanel);
  }

 private:
  // Prefetching is harmless if a later row is null or too short to have these columns.
  STROBE_INLINE void fetch_after(int r, int col) const {
    constexpr int kAhead = 24;  // prefetch distance in rows
    if (r + kAhead + 16 > pack_.count + pack_.following) return;
    const void* const* const rows = pack_.rows + r + kAhead;
    const std::uintptr_t offset = static_cast<std::uintptr_t>(col) * sizeof(float);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(rows[i]) + offset));
    }
  }

  STROBE_INLINE __m512 some_of_row(int r, int col) const {
    const int count = pack_.cols - col;
    if (r >= pack_.count || count <= 0 || !pack_.rows[r]) return _mm512_setzero_ps();
    const auto* const from = static_cast<const float*>(pack_.rows[r]);
    const auto there = static_cast<__mmask16>(count >= 16 ? 0xffff : (1 << count) - 1);
    return pack_.col_stride == 0 ? _mm512_maskz_mov_ps(there, _mm512_set1_ps(*from))
                                 : _mm512_maskz_loadu_ps(there, from + col);
  }

  const Pack& pack_;
  __m512i largest_ = _mm512_setzero_si512();  // bits of |x|
};

template <int Terms>
struct SplitPack {
  static constexpr bool kInterleaved = true;  // whole tile rows are cheaper to split (rows_to_m in engine_amx.h)

  static bool pack_m(const Pack& a) {
    SquareReader in(a);
    const int steps = round_up(a.cols, kChunk), rows = round_up(a.count, kChunk);
    for (int r = 0; r < rows; r += 16) {
      for (int t = 0; t < steps; t += kChunk) {
        std::uint16_t* const out = rows_of_m(a, steps, r, t);
        in.given(r, t, kChunk) ? put_rows<true>(in, r, t, out) : put_rows<false>(in, r, t, out);
      }
    }
    return in.odd();
  }

  static bool pack_mt(const Pack& a) {
    SquareReader in(a);
    const int steps = round_up(a.count, kChunk), rows = round_up(a.cols, kChunk);
    for (int t = 0; t < steps; t += kChunk) {
      for (int r = 0; r < rows; r += 16) {
        F32 low[16], high[16];
        in.transposed(t, r, low);
        in.transposed(t + 16, r, high);
        std::uint16_t* const out = rows_of_m(a, steps, r, t);
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) put(neighbours(low[i], high[i]), out + i * kChunk);
      }
    }
    return in.odd();
  }

  static bool pack_n(const Pack& a) {
    SquareReader in(a);
    const int steps = round_up(a.cols, kChunk);
    for (int t = 0; t < steps; t += 16) {
      for (int first = 0; first < kChunk; first += 16) {
        F32 step[16];
        in.transposed(first, t, step);
        std::uint16_t* const out = words(a, t) + t % kChunk * kChunk + first * 2;
#pragma GCC unroll 16
        for (int i = 0; i < 16; i += 2) put(pairs(step[i], step[i + 1]), out + i * kChunk);
      }
    }
    return in.odd();
  }

  static bool pack_nt(const Pack& a) {
    SquareReader in(a);
    const int steps = round_up(a.count, kChunk), cols = round_up(a.cols, kChunk);
    for (int c = 0; c < cols; c += 16) {
      for (int t = 0; t < steps; t += kChunk) {
        std::uint16_t* const out = words(a, static_cast<std::ptrdiff_t>(c / kChunk) * steps + t) + c % kChunk * 2;
        const bool given = in.given(t, c, 16) && in.given(t + 16, c, 16);
        given ? put_steps<true>(in, t, c, out) : put_steps<false>(in, t, c, out);
      }
    }
    return in.odd();
  }

 private:
  static constexpr int kChunk = 32;                     // rows (or columns) and steps of a chunk
  static constexpr int kWordsOfTerm = kChunk * kChunk;  // bf16 per chunk and term

  // Returns the chunk that holds step `step` of consecutive panels.
  STROBE_INLINE static std::uint16_t* words(const Pack& a, std::ptrdiff_t step) {
    return static_cast<std::uint16_t*>(a.out) + step / kChunk * kWordsOfTerm * Terms;
  }
  // Returns the address of row r, step t, in the M panels; t is a multiple of 32.
  STROBE_INLINE static std::uint16_t* rows_of_m(const Pack& a, int steps, int r, int t) {
    return words(a, static_cast<std::ptrdiff_t>(r / kChunk) * steps + t) + r % kChunk * kChunk;
  }

  // Packs 16 rows x 32 steps into an M panel.
  template <bool Given>
  STROBE_INLINE static void put_rows(SquareReader& in, int r, int t, std::uint16_t* out) {
    for (int i = 0; i < 16; ++i) {
      const F32 low = in.row<Given>(r + i, t), high = in.row<Given>(r + i, t + 16);
      put(neighbours(low, high), out + i * kChunk);
    }
  }

  // Packs 32 steps x 16 columns into an N panel; steps t and t + 16 are adjacent.
  template <bool Given>
  STROBE_INLINE static void put_steps(SquareReader& in, int t, int c, std::uint16_t* out) {
    for (int i = 0; i < 16; ++i) {
      const F32 even = in.row<Given>(t + i, c), odd = in.row<Given>(t + 16 + i, c);
      put(pairs(even, odd), out + i * 2 * kChunk);
    }
  }

  // Splits both vectors. For each term, `join` combines the terms of a and b into 32 bf16.
  template <class Join>
  STROBE_INLINE static TermWords<Terms> split_and_join(F32 a, F32 b, Join join) {
    F32 of_a[Terms], of_b[Terms];
    split(a, of_a);
    split(b, of_b);
    TermWords<Terms> words;
#pragma GCC unroll 3
    for (int i = 0; i < Terms; ++i) words.term[i] = join(of_a[i], of_b[i]);
    return words;
  }
  // Returns the split lanes of `low` followed by those of `high`.
  STROBE_INLINE static TermWords<Terms> neighbours(F32 low, F32 high) {
    return split_and_join(low, high, [](F32 of_low, F32 of_high) STROBE_INLINE_LAMBDA {
      return (__m512i)_mm512_cvtne2ps_pbh((__m512)of_high, (__m512)of_low);
    });
  }
  // Returns the split lanes of `even` and `odd`, interleaved.
  STROBE_INLINE static TermWords<Terms> pairs(F32 even, F32 odd) {
    return split_and_join(even, odd, [](F32 of_even, F32 of_odd) STROBE_INLINE_LAMBDA {
      return upper_halves((__m512i)of_even, (__m512i)of_odd);
    });
  }

  STROBE_INLINE static void put(const TermWords<Terms>& words, std::uint16_t* out) {
#pragma GCC unroll 3
    for (int i = 0; i < Terms; ++i) _mm512_storeu_si512(out + i * kWordsOfTerm, words.term[i]);
  }
};

}  // namespace
}  // namespace strobe::cpu
