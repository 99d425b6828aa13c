// bf16 micro-kernel on AVX512-BF16: vdpbf16ps multiplies pairs of steps at twice the throughput of an fp32 FMA. Also
// contains the conversions of fp32 tiles to bf16 chunks, which engine_amx.h shares. Included by avx512bf16.cpp and
// amx.cpp. isa.h defines panels, chunks and steps.
#pragma once

#include "attention/cpu/isa.h"
#include "attention/cpu/isa/pack_pairs.h"
#include "core/simd.h"

namespace strobe::cpu {
namespace {

// Converts two rows to bf16: words 0 to 15 are rows[0], words 16 to 31 rows[1]. Rounds to nearest even; subnormals
// become 0.
STROBE_INLINE __m512i narrow(const F32 (&rows)[2]) {
  return (__m512i)_mm512_cvtne2ps_pbh((__m512)rows[1], (__m512)rows[0]);
}

// Stores vector v of rows r and r + 1 to M chunks [Rows][K].
template <int Rows, int K>
STROBE_INLINE void pair_to_m(const F32 (&rows)[2], int r, int v, std::uint16_t* out) {
  const __m512i both = narrow(rows);
  if constexpr (K == 32) {
    auto* at = (__m256i_u*)(out + r * K + v * 16);
    _mm256_storeu_si256(at, _mm512_castsi512_si256(both));
    _mm256_storeu_si256(at + 2, _mm512_extracti64x4_epi64(both, 1));
  } else {
    static_assert(K == 8);
    auto* at = (__m128i_u*)(out + 2 * v * Rows * K + r * K);
    _mm_storeu_si128(at, _mm512_castsi512_si128(both));
    _mm_storeu_si128(at + Rows, _mm512_extracti32x4_epi32(both, 1));
    _mm_storeu_si128(at + 1, _mm512_extracti32x4_epi32(both, 2));
    _mm_storeu_si128(at + Rows + 1, _mm512_extracti32x4_epi32(both, 3));
  }
}

// Stores vector v of two rows in the N layout [32][2]: word 2 i comes from the first row, word 2 i + 1 from the second.
STROBE_INLINE void pair_to_n(const F32 (&rows)[2], int v, std::uint16_t* out) {
  const __m512i interleave = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22,
                                              6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  _mm512_storeu_si512(out + v * 32, _mm512_permutexvar_epi16(interleave, narrow(rows)));
}

struct EngineAvx512Bf16 : PairPack<8, 8> {
  using Element = std::uint16_t;
  static constexpr DType kCompute = DType::bf16;
  static constexpr int kM = 8;
  static constexpr int kN = 32;
  static constexpr int kCols = 32;
  static constexpr int kK = 8;
  static constexpr int kP = 2;

  // Computes C[8][32] (+)= the M panel [steps / 8][8][8] times the N panel [steps / 2][32][2].
  template <int Width>
  static void product(const std::uint16_t* m, const std::uint16_t* n, int steps, float* c, bool accumulate) {
    static_assert(Width == 32);
    F32 sum[kM][2];
#pragma GCC unroll 8
    for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) sum[r][v] = accumulate ? load(c + r * Width + v * 16) : F32{};
    }
    for (int t = 0; t < steps; t += kK) {
#pragma GCC unroll 4
      for (int u = 0; u < kK; u += kP) {
        const __m512bh low = (__m512bh)_mm512_loadu_si512(n + u * Width);
        const __m512bh high = (__m512bh)_mm512_loadu_si512(n + u * Width + 32);
#pragma GCC unroll 8
        for (int r = 0; r < kM; ++r) {
          std::int32_t pair;
          __builtin_memcpy(&pair, m + r * kK + u, sizeof pair);
          const __m512bh row = (__m512bh)_mm512_set1_epi32(pair);
          sum[r][0] = (F32)_mm512_dpbf16_ps((__m512)sum[r][0], row, low);
          sum[r][1] = (F32)_mm512_dpbf16_ps((__m512)sum[r][1], row, high);
        }
      }
      m += kM * kK;
      n += Width * kK;
    }
#pragma GCC unroll 8
    for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) store(c + r * Width + v * 16, sum[r][v]);
    }
  }

  STROBE_INLINE static void lanes_to_m(const F32 (&rows)[2], int r, int v, Element* out) {
    pair_to_m<kM, kK>(rows, r, v, out);
  }
  STROBE_INLINE static void lanes_to_n(const F32 (&rows)[2], std::ptrdiff_t t, int v, Element* out) {
    pair_to_n(rows, v, out + t * kN);
  }
};

}  // namespace
}  // namespace strobe::cpu
