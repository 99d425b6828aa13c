// Micro-kernels on AMX: 2 x 2 tiles of 16 x 16 accumulators, tdpbf16ps over 32 steps. Serves bf16, and fp32 as split
// floats of three bf16 terms, whose product takes six bf16 products. tdpbf16ps sums the 16 products of the even steps
// and the 16 of the odd steps, each sum from zero and rounded to nearest. It then adds both sums to the accumulator.
// Each thread must configure its tile registers: call begin() before and end() after any number of matmuls. Included by
// amx.cpp. isa.h defines panels, chunks and steps.
#pragma once

#include "attention/cpu/isa/engine_avx512bf16.h"
#include "attention/cpu/isa/exp2_together.h"
#include "attention/cpu/isa/pack_split.h"

namespace strobe::cpu {
namespace {

// These functions declare that tile loads and stores access memory, which the compiler's intrinsics do not.
template <int Tile>
STROBE_INLINE void tile_load(const void* from, std::ptrdiff_t row_bytes) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(row_bytes), "i"(Tile) : "memory");
}
template <int Tile>
STROBE_INLINE void tile_store(void* to, std::ptrdiff_t row_bytes) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(row_bytes), "i"(Tile) : "memory");
}
template <int Tile>
STROBE_INLINE void tile_zero() {
  asm volatile("tilezero %%tmm%c0" ::"i"(Tile));
}
template <int C, int A, int B>
STROBE_INLINE void tile_mma() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
}

// Operand of ldtilecfg: eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

// Element of panels: bf16 or a split float. For split floats it is only the unit of offsets, because a chunk stores the
// first terms of all elements, then the second terms, and so on.
template <int Terms>
struct AmxPanels : SplitPack<Terms> {
  struct Element {
    std::uint16_t term[Terms];
  };
  static constexpr DType kCompute = DType::fp32;
  static constexpr float kBoost = kSplitBoost;
  static constexpr int kSumChunkFactor = 4;  // a chunk's 32 steps round six times at the magnitude of the partial sum
};
template <>
struct AmxPanels<1> : PairPack<32, 32> {
  using Element = std::uint16_t;
  static constexpr DType kCompute = DType::bf16;
  static constexpr float kBoost = 1;
};

template <int Terms>
struct EngineAmx : AmxPanels<Terms> {
  using Element = typename AmxPanels<Terms>::Element;
  using AmxPanels<Terms>::kBoost;
  static constexpr int kTerms = Terms;
  static constexpr int kM = 32;
  static constexpr int kN = 32;
  static constexpr int kCols = 32;
  static constexpr int kK = 32;
  static constexpr int kP = 2;
  static constexpr int kMatmulsOfChunk = Terms == 1 ? 1 : 6;

  static void begin() {
    static constexpr TileConfig kConfig;
    asm volatile("ldtilecfg %0" ::"m"(kConfig));
  }
  static void end() { asm volatile("tilerelease"); }

  // Computes C[32][32] (+)= the M panel [steps / 32][32][32] times the N panel [steps / 2][32][2].
  // Tile registers 0 to 3 hold C, 4 and 5 the rows of the M chunk, 6 and 7 the columns of the N chunk.
  template <int Width>
  static void product(const Element* m, const Element* n, int steps, float* c, bool accumulate) {
    panel_matmuls<Width>(m, 0, n, steps, 1, c, accumulate);
  }

  struct Nothing {  // callback that does nothing
    STROBE_INLINE void operator()() const {}
    STROBE_INLINE void operator()(int) const {}
  };
  // Computes C_i (+)= M_i N for `panels` M panels. Calls meanwhile() kMatmulsOfChunk times per chunk, so that vector
  // work overlaps with tile matmuls. Calls stored(i) for each panel i but the last, once C_i is in memory and the first
  // chunk of panel i + 1 has been issued.
  template <int Width, class Meanwhile = Nothing, class Stored = Nothing>
  STROBE_INLINE static void panel_matmuls(const Element* m, std::ptrdiff_t m_stride, const Element* n, int steps,
                                          int panels, float* c, bool accumulate, Meanwhile&& meanwhile = {},
                                          Stored&& stored = {}) {
    static_assert(Width == 32);
    if (accumulate && Terms > 1) return add_matmuls(m, m_stride, n, steps, panels, c, kOnes, meanwhile);
    for (int i = 0; i < panels; ++i, m += m_stride, c += kM * Width) {
      accumulate ? load_sums(c) : clear_sums();
      for (int t = 0; t < steps; t += kK) {
        mma_chunk(m + t * kM, n + t * kN, meanwhile);
        if (t == 0 && i > 0) stored(i - 1);
      }
      store_sums(c);
    }
  }

  // Computes C_i = C_i * factor + M_i N with one factor per lane, factor [32]. C is added at the end, because sums that
  // start from C would round each product of terms at the magnitude of C. The sums of a panel are added to C during the
  // next panel's first chunk.
  template <class Meanwhile>
  STROBE_INLINE static void add_matmuls(const Element* m, std::ptrdiff_t m_stride, const Element* n, int steps,
                                        int panels, float* c, const float* factor, Meanwhile&& meanwhile) {
    alignas(64) float sums[2][kM * kN];
    if (steps == 0 || panels == 0) return;
    for (int i = 0; i < panels; ++i, m += m_stride) {
      clear_sums();
      mma_chunk(m, n, meanwhile);
      if (i > 0) add(sums[(i - 1) % 2], factor, c + (i - 1) * kM * kN);
      for (int t = kK; t < steps; t += kK) mma_chunk(m + t * kM, n + t * kN, meanwhile);
      store_sums(sums[i % 2]);
    }
    add(sums[(panels - 1) % 2], factor, c + (panels - 1) * kM * kN);
  }

  STROBE_INLINE static void lanes_to_m(const F32 (&rows)[2], int r, int v, Element* out) {
    pair_to_m<kM, kK>(rows, r, v, out);
  }
  // Writes whole cache lines, because two writes of half a line each would transfer the line twice.
  STROBE_INLINE static void rows_to_m(const F32 (&rows)[2][2], int r, Element* out) {
    std::uint16_t* at = words(out) + r * kK;
    F32 low[Terms][2], high[Terms][2];
    split_pair({rows[0][0] * kBoost, rows[0][1] * kBoost}, low);
    split_pair({rows[1][0] * kBoost, rows[1][1] * kBoost}, high);
#pragma GCC unroll 3
    for (int i = 0; i < Terms; ++i, at += kM * kK) {
      _mm512_storeu_si512(at, upper_halves((__m512i)low[i][0], (__m512i)high[i][0]));
      _mm512_storeu_si512(at + kK, upper_halves((__m512i)low[i][1], (__m512i)high[i][1]));
    }
  }
  STROBE_INLINE static void lanes_to_n(const F32 (&rows)[2], std::ptrdiff_t t, int v, Element* out) {
    if constexpr (Terms == 1) return pair_to_n(rows, v, out + t * kN);
    boosted_to_n({rows[0] * kBoost, rows[1] * kBoost}, t, v, out);
  }

  // Used by forward_pipeline.h: exponentiate() computes 2^x * kBoost, and boosted_to_n() converts such values to the
  // layout of lanes_to_n().
  template <int Count>
  STROBE_INLINE static void exponentiate(F32 (&x)[Count]) {
    if constexpr (Terms == 1) {
      exp2_by_polynomial<3>(x);
    } else {
      static_assert(kBoost == 0x1p32f);
      exp2_by_table<32>(x);
    }
  }
  STROBE_INLINE static void boosted_to_n(const F32 (&rows)[2], std::ptrdiff_t t, int v, Element* out) {
    if constexpr (Terms == 1) {  // rounds half up, which is cheaper than to nearest even; a NaN reaches the output
                                 // through the row's sum
      const auto rounded = [&](int i) STROBE_INLINE_LAMBDA { return (__m512i)(as_bits(rows[i]) + 0x8000u); };
      _mm512_storeu_si512(out + t * kN + v * 32, upper_halves(rounded(0), rounded(1)));
    } else {
      F32 terms[Terms][2];
      split_pair(rows, terms);
      std::uint16_t* at = words(out + t / kK * kK * kN) + t % kK * kN + v * 32;
#pragma GCC unroll 3
      for (int i = 0; i < Terms; ++i, at += kN * kK) {
        _mm512_storeu_si512(at, upper_halves((__m512i)terms[i][0], (__m512i)terms[i][1]));
      }
    }
  }

 private:
  alignas(64) static constexpr float kOnes[kN] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                                  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  static constexpr std::ptrdiff_t kRowM = kK * 2, kRowN = kN * kP * 2, kRowC = kN * 4;  // bytes

  static std::uint16_t* words(Element* at) { return reinterpret_cast<std::uint16_t*>(at); }

  STROBE_INLINE static void split_pair(const F32 (&rows)[2], F32 (&terms)[Terms][2]) {
#pragma GCC unroll 2
    for (int row = 0; row < 2; ++row) {
      F32 of_row[Terms];
      split_quickly(rows[row], of_row);
#pragma GCC unroll 3
      for (int i = 0; i < Terms; ++i) terms[i][row] = of_row[i];
    }
  }

  STROBE_INLINE static void load_m(const std::uint16_t* m) {
    tile_load<4>(m, kRowM);
    tile_load<5>(m + 16 * kK, kRowM);
  }
  STROBE_INLINE static void load_n(const std::uint16_t* n) {
    tile_load<6>(n, kRowN);
    tile_load<7>(n + 16 * kP, kRowN);
  }
  STROBE_INLINE static void mma_tiles() {
    tile_mma<0, 4, 6>();
    tile_mma<1, 4, 7>();
    tile_mma<2, 5, 6>();
    tile_mma<3, 5, 7>();
  }

  STROBE_INLINE static void clear_sums() {
    tile_zero<0>();
    tile_zero<1>();
    tile_zero<2>();
    tile_zero<3>();
  }
  STROBE_INLINE static void load_sums(const float* c) {
    tile_load<0>(c, kRowC);
    tile_load<1>(c + 16, kRowC);
    tile_load<2>(c + 16 * kN, kRowC);
    tile_load<3>(c + 16 * kN + 16, kRowC);
  }
  STROBE_INLINE static void store_sums(float* c) {
    tile_store<0>(c, kRowC);
    tile_store<1>(c + 16, kRowC);
    tile_store<2>(c + 16 * kN, kRowC);
    tile_store<3>(c + 16 * kN + 16, kRowC);
  }

  STROBE_INLINE static void add(const float* sums, const float* factor, float* c) {
    const F32 low = load(factor), high = load(factor + kLanes);
    for (int i = 0; i < kM * kN; i += kN) {
      store(c + i, fma(load(c + i), low, load(sums + i)));
      store(c + i + kLanes, fma(load(c + i + kLanes), high, load(sums + i + kLanes)));
    }
  }

  // Adds small products before large ones, as far as possible with one operand load per step.
  template <class Meanwhile>
  STROBE_INLINE static void mma_chunk(const Element* m_chunk, const Element* n_chunk, Meanwhile& meanwhile) {
    const auto* m = reinterpret_cast<const std::uint16_t*>(m_chunk);
    const auto* n = reinterpret_cast<const std::uint16_t*>(n_chunk);
    constexpr int kTermM = kM * kK, kTermN = kN * kK;
    static_assert(Terms == 1 || Terms == 3);
    if constexpr (Terms == 3) {
      load_m(m + 2 * kTermM);
      load_n(n);
      mma_tiles();
      meanwhile();
      load_m(m + kTermM);
      mma_tiles();
      meanwhile();
      load_n(n + kTermN);
      mma_tiles();
      meanwhile();
      load_m(m);
      mma_tiles();
      meanwhile();
      load_n(n + 2 * kTermN);
      mma_tiles();
      meanwhile();
      load_n(n);
      mma_tiles();
      meanwhile();
    } else {
      load_m(m);
      load_n(n);
      mma_tiles();
      meanwhile();
    }
  }
};

}  // namespace
}  // namespace strobe::cpu
