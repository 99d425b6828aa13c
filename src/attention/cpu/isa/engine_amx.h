// bf16 micro-kernel on AMX: 2 x 2 tiles of 16 x 16 accumulators, tdpbf16ps over 32 steps. Tile registers have to be
// configured before use on each thread: begin() and end() around any number of products. Included by amx.cpp.
#pragma once

#include "attention/cpu/isa/engine_avx512bf16.h"

namespace strobe::cpu {
namespace {

// The compiler's own wrappers do not tell it that a tile load reads memory; these do.
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
STROBE_INLINE void tile_multiply() {
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

struct EngineAmx : PairPack<32, 32> {
  using Element = std::uint16_t;
  static constexpr DType kCompute = DType::bf16;
  static constexpr int kM = 32;
  static constexpr int kN = 32;
  static constexpr int kCols = 32;
  static constexpr int kK = 32;
  static constexpr int kP = 2;

  static void begin() {
    static constexpr TileConfig kConfig;
    asm volatile("ldtilecfg %0" ::"m"(kConfig));
  }
  static void end() { asm volatile("tilerelease"); }

  // C[32][32] (+)= the M panel [steps / 32][32][32] times the N panel [steps / 2][32][2].
  // Tiles 0..3 are C, 4 and 5 rows of the M chunk, 6 and 7 columns of the N chunk.
  template <int Width>
  static void product(const std::uint16_t* m, const std::uint16_t* n, int steps, float* c, bool accumulate) {
    static_assert(Width == 32);
    constexpr std::ptrdiff_t kRowM = kK * sizeof(Element);
    constexpr std::ptrdiff_t kRowN = Width * kP * sizeof(Element);
    constexpr std::ptrdiff_t kRowC = Width * sizeof(float);
    if (accumulate) {
      tile_load<0>(c, kRowC);
      tile_load<1>(c + 16, kRowC);
      tile_load<2>(c + 16 * Width, kRowC);
      tile_load<3>(c + 16 * Width + 16, kRowC);
    } else {
      tile_zero<0>();
      tile_zero<1>();
      tile_zero<2>();
      tile_zero<3>();
    }
    for (int t = 0; t < steps; t += kK) {
      tile_load<6>(n, kRowN);
      tile_load<4>(m, kRowM);
      tile_load<7>(n + 16 * kP, kRowN);
      tile_load<5>(m + 16 * kK, kRowM);
      tile_multiply<0, 4, 6>();
      tile_multiply<1, 4, 7>();
      tile_multiply<2, 5, 6>();
      tile_multiply<3, 5, 7>();
      m += kM * kK;
      n += Width * kK;
    }
    tile_store<0>(c, kRowC);
    tile_store<1>(c + 16, kRowC);
    tile_store<2>(c + 16 * Width, kRowC);
    tile_store<3>(c + 16 * Width + 16, kRowC);
  }

  STROBE_INLINE static void lanes_to_m(const F32 (&rows)[2], int r, int v, Element* out) {
    pair_to_m<kM, kK>(rows, r, v, out);
  }
  STROBE_INLINE static void lanes_to_n(const F32 (&rows)[2], int v, Element* out) { pair_to_n(rows, v, out); }
};

}  // namespace
}  // namespace strobe::cpu
