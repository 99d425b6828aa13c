// bf16 matmul with NEON's BFMMLA, which multiplies [2 rows x 4 steps] by [4 steps x 2 columns]. Each of the 24
// accumulators holds a 2 x 2 block of C. Written in assembly because GCC 12 spills them. Used by neonbf16.cpp.
//
// The low half of an accumulator holds columns 0 and 1 of row 0, the high half those of row 1. A row of C therefore
// consists of the low, or high, halves of adjacent accumulators. Storing a tile takes as long as multiplying three
// chunks, so it is overlapped with multiplying the next tile's first chunk. isa.h defines panels, chunks and steps.
#pragma once

#include "attention/cpu/isa.h"
#include "attention/cpu/isa/engine_neon.h"
#include "attention/cpu/isa/pack_neonbf16.h"
#include "core/simd.h"

// The line breaks group instructions, so they are not reformatted.
// clang-format off

#define STROBE_BF_MMLA(a, m, n) "bfmmla v" #a ".4s, v" #m ".8h, v" #n ".8h\n"
// Loads the high halves of two accumulators from a row of C.
#define STROBE_BF_HIGH(a, b, at) "ldr q7, [%[next], #" #at "]\n ins v" #a ".d[1], v7.d[0]\n ins v" #b ".d[1], v7.d[1]\n"

// Two rows of 12 columns: six accumulators a..f, at byte `at` of C. [c] points to the finished tile, [next] to the one
// being started. v0..v5 hold the N chunk, v6 and v7 half of the M chunk at a time. While a tile is started only v6 holds
// M, and v7 is scratch.
#define STROBE_BF_STORE6(a, b, c, d, e, f, at)                                             \
  "stp d" #a ", d" #b ", [%[c], #" #at "]\n stp d" #c ", d" #d ", [%[c], #" #at "+16]\n"   \
  "stp d" #e ", d" #f ", [%[c], #" #at "+32]\n"                                            \
  "zip2 v" #a ".2d, v" #a ".2d, v" #b ".2d\n zip2 v" #c ".2d, v" #c ".2d, v" #d ".2d\n"    \
  "zip2 v" #e ".2d, v" #e ".2d, v" #f ".2d\n"                                              \
  "stp q" #a ", q" #c ", [%[c], #" #at "+48]\n str q" #e ", [%[c], #" #at "+80]\n"
#define STROBE_BF_LOAD6(a, b, c, d, e, f, at)                                                     \
  "ldp d" #a ", d" #b ", [%[next], #" #at "]\n ldp d" #c ", d" #d ", [%[next], #" #at "+16]\n"    \
  "ldp d" #e ", d" #f ", [%[next], #" #at "+32]\n"                                                \
  STROBE_BF_HIGH(a, b, at + 48) STROBE_BF_HIGH(c, d, at + 64) STROBE_BF_HIGH(e, f, at + 80)
#define STROBE_BF_ZERO6(a, b, c, d, e, f, at)                          \
  "movi v" #a ".2d, #0\n movi v" #b ".2d, #0\n movi v" #c ".2d, #0\n"  \
  "movi v" #d ".2d, #0\n movi v" #e ".2d, #0\n movi v" #f ".2d, #0\n"
#define STROBE_BF_MMLA6(m, a, b, c, d, e, f)                              \
  STROBE_BF_MMLA(a, m, 0) STROBE_BF_MMLA(b, m, 1) STROBE_BF_MMLA(c, m, 2) \
  STROBE_BF_MMLA(d, m, 3) STROBE_BF_MMLA(e, m, 4) STROBE_BF_MMLA(f, m, 5)
// Stores six finished accumulators, initialises them for the next tile with `begin`, and adds that tile's first chunk.
#define STROBE_BF_TURN6(begin, a, b, c, d, e, f, at, m_at)                             \
  STROBE_BF_STORE6(a, b, c, d, e, f, at) begin(a, b, c, d, e, f, at)                   \
  "ldr q6, [%[m], #" #m_at "]\n" STROBE_BF_MMLA6(6, a, b, c, d, e, f)
#define STROBE_BF_ROWS12(op)                                  \
  op(8, 9, 10, 11, 12, 13, 0) op(14, 15, 16, 17, 18, 19, 96)  \
  op(20, 21, 22, 23, 24, 25, 192) op(26, 27, 28, 29, 30, 31, 288)
#define STROBE_BF_TURN12(begin)                                                                                   \
  "ldp q0, q1, [%[n]]\n ldp q2, q3, [%[n], #32]\n ldp q4, q5, [%[n], #64]\n"                                      \
  STROBE_BF_TURN6(begin, 8, 9, 10, 11, 12, 13, 0, 0) STROBE_BF_TURN6(begin, 14, 15, 16, 17, 18, 19, 96, 16)       \
  STROBE_BF_TURN6(begin, 20, 21, 22, 23, 24, 25, 192, 32) STROBE_BF_TURN6(begin, 26, 27, 28, 29, 30, 31, 288, 48)
#define STROBE_BF_CHUNK12(m_at, n_at)                                                    \
  "ldp q0, q1, [%[n], #" #n_at "]\n ldp q6, q7, [%[m], #" #m_at "]\n"                    \
  "ldp q2, q3, [%[n], #" #n_at "+32]\n ldp q4, q5, [%[n], #" #n_at "+64]\n"              \
  STROBE_BF_MMLA6(6, 8, 9, 10, 11, 12, 13) STROBE_BF_MMLA6(7, 14, 15, 16, 17, 18, 19)    \
  "ldp q6, q7, [%[m], #" #m_at "+32]\n"                                                  \
  STROBE_BF_MMLA6(6, 20, 21, 22, 23, 24, 25) STROBE_BF_MMLA6(7, 26, 27, 28, 29, 30, 31)

// The same macros for 8 columns: two rows take four accumulators, v0..v3 hold the N chunk and v4..v7 the M chunk. A
// tile has 12 rows, because the 16 accumulators of 8 rows would not hide BFMMLA's latency. The 12 rows are three half
// panels, at [ma], [mb] and [mc].
#define STROBE_BF_STORE4(a, b, c, d, at)                                                  \
  "stp d" #a ", d" #b ", [%[c], #" #at "]\n stp d" #c ", d" #d ", [%[c], #" #at "+16]\n"  \
  "zip2 v" #a ".2d, v" #a ".2d, v" #b ".2d\n zip2 v" #c ".2d, v" #c ".2d, v" #d ".2d\n"   \
  "stp q" #a ", q" #c ", [%[c], #" #at "+32]\n"
#define STROBE_BF_LOAD4(a, b, c, d, at)                                                         \
  "ldp d" #a ", d" #b ", [%[next], #" #at "]\n ldp d" #c ", d" #d ", [%[next], #" #at "+16]\n"  \
  STROBE_BF_HIGH(a, b, at + 32) STROBE_BF_HIGH(c, d, at + 48)
#define STROBE_BF_ZERO4(a, b, c, d, at) \
  "movi v" #a ".2d, #0\n movi v" #b ".2d, #0\n movi v" #c ".2d, #0\n movi v" #d ".2d, #0\n"
#define STROBE_BF_MMLA4(m, a, b, c, d) \
  STROBE_BF_MMLA(a, m, 0) STROBE_BF_MMLA(b, m, 1) STROBE_BF_MMLA(c, m, 2) STROBE_BF_MMLA(d, m, 3)
#define STROBE_BF_TURN4(begin, a, b, c, d, at, m_at)                 \
  STROBE_BF_STORE4(a, b, c, d, at) begin(a, b, c, d, at)             \
  "ldr q4, [%[" m_at "]\n" STROBE_BF_MMLA4(4, a, b, c, d)
#define STROBE_BF_FOUR_PAIRS(op) \
  op(8, 9, 10, 11, 0) op(12, 13, 14, 15, 64) op(16, 17, 18, 19, 128) op(20, 21, 22, 23, 192)
#define STROBE_BF_SIX_PAIRS(op) STROBE_BF_FOUR_PAIRS(op) op(24, 25, 26, 27, 256) op(28, 29, 30, 31, 320)
#define STROBE_BF_TURN8(begin)                                                                                     \
  "ldp q0, q1, [%[n]]\n ldp q2, q3, [%[n], #32]\n"                                                                 \
  STROBE_BF_TURN4(begin, 8, 9, 10, 11, 0, "ma]") STROBE_BF_TURN4(begin, 12, 13, 14, 15, 64, "ma], #16")            \
  STROBE_BF_TURN4(begin, 16, 17, 18, 19, 128, "mb]") STROBE_BF_TURN4(begin, 20, 21, 22, 23, 192, "mb], #16")       \
  STROBE_BF_TURN4(begin, 24, 25, 26, 27, 256, "mc]") STROBE_BF_TURN4(begin, 28, 29, 30, 31, 320, "mc], #16")
#define STROBE_BF_HALF_CHUNK8(m0, m1, n_at)                                                  \
  "ldp q0, q1, [%[n], #" #n_at "]\n ldp q4, q5, [%[" m0 "]\n"                                \
  "ldp q2, q3, [%[n], #" #n_at "+32]\n ldp q6, q7, [%[" m1 "]\n"                             \
  STROBE_BF_MMLA4(4, 8, 9, 10, 11) STROBE_BF_MMLA4(5, 12, 13, 14, 15)
#define STROBE_BF_CHUNK8(at)                                                                          \
  STROBE_BF_HALF_CHUNK8("ma], #" #at, "mb], #" #at, at) "ldp q4, q5, [%[mc], #" #at "]\n"             \
  STROBE_BF_MMLA4(6, 16, 17, 18, 19) STROBE_BF_MMLA4(7, 20, 21, 22, 23)                               \
  STROBE_BF_MMLA4(4, 24, 25, 26, 27) STROBE_BF_MMLA4(5, 28, 29, 30, 31)

// clang-format on

namespace strobe::cpu {
namespace {

struct NeonBf16Engine : NeonBf16Pack {
  using Element = std::uint16_t;
  static constexpr DType kCompute = DType::bf16;
  static constexpr int kM = 8, kN = 12, kCols = 8, kK = 4, kP = 4;

  template <int Width>
  static void product(const Element* m, const Element* n, int steps, float* c, bool accumulate) {
    panel_matmuls<Width>(m, 0, n, steps, 1, c, accumulate);
  }

  // Computes C_i (+)= M_i N for panels m_stride elements apart. Reaches 82 % of the BFMMLA rate at 64 steps, 88 % at
  // 256.
  template <int Width>
  static void panel_matmuls(const Element* m, std::ptrdiff_t m_stride, const Element* n, int steps, int panels,
                            float* c, bool accumulate) {
    static_assert(Width == 12 || Width == 8);
    const int chunks = steps / kK;
    if (chunks == 0 || panels == 0) {
      for (int i = 0; i < panels * kM * Width && !accumulate; ++i) c[i] = 0;
      return;
    }
    if constexpr (Width == 12) {
      tiles_8x12(m, m_stride, n, chunks, panels, c, accumulate);
    } else {
      const int triples = panels / 3;
      if (triples > 0) tiles_12x8(m, m_stride, n, chunks, 2 * triples, c, accumulate);
      for (int i = 3 * triples; i < panels; ++i) tile_8x8(m + i * m_stride, n, chunks, c + i * kM * Width, accumulate);
    }
  }

  // Four rows of four lanes already have the layout of an M chunk.
  STROBE_INLINE static void lanes_to_m(const F32 (&rows)[4], int r, int v, Element* out) {
    Element* at = out + v * kM * kK + r * kK;
    vst1q_u16(at, narrow(rows[0], rows[1]));
    vst1q_u16(at + 8, narrow(rows[2], rows[3]));
  }
  // An N panel needs the four rows transposed, so that a lane's four steps are adjacent.
  STROBE_INLINE static void lanes_to_n(const F32 (&rows)[4], std::ptrdiff_t t, int v, Element* out) {
    const uint16x8_t low = narrow(rows[0], rows[1]),
                     high = narrow(rows[2], rows[3]);  // the same two vectors as in lanes_to_m
    const uint16x8_t even = vzip1q_u16(low, high), odd = vzip2q_u16(low, high);  // steps 0 and 2, 1 and 3
    Element* at = out + t * kN + v * kLanes * kP;
    vst1q_u16(at, vzip1q_u16(even, odd));
    vst1q_u16(at + 8, vzip2q_u16(even, odd));
  }

 private:
  STROBE_INLINE static uint16x8_t narrow(F32 low, F32 high) {
    return vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32((float32x4_t)low), (float32x4_t)high));
  }

  // Requires at least one chunk and one panel.
  static void tiles_8x12(const Element* m, std::ptrdiff_t m_stride, const Element* n, std::int64_t chunks,
                         std::int64_t panels, float* c, bool accumulate) {
    const std::int64_t n_back = chunks * kK * 12 * 2, m_next = m_stride * 2 - chunks * kK * kM * 2;  // bytes
    const std::int64_t load_c = accumulate;
    std::int64_t i = 0;
    float* next = c;
    asm volatile(
        "mov %[i], %[chunks]\n"
        "cbz %[load], 1f\n" STROBE_BF_ROWS12(STROBE_BF_LOAD6) "b 4f\n"
        "1:\n" STROBE_BF_ROWS12(STROBE_BF_ZERO6) "b 4f\n"
        "2: sub %[i], %[chunks], #1\n"
        "add %[next], %[c], #384\n"
        "cbnz %[load], 3f\n" STROBE_BF_TURN12(STROBE_BF_ZERO6)
        "mov %[c], %[next]\n add %[m], %[m], #64\n add %[n], %[n], #96\n"
        "b 4f\n"
        "3:\n" STROBE_BF_TURN12(STROBE_BF_LOAD6)
        "mov %[c], %[next]\n add %[m], %[m], #64\n add %[n], %[n], #96\n"
        "4: tbz %[i], #0, 5f\n" STROBE_BF_CHUNK12(0, 0)
        "add %[m], %[m], #64\n add %[n], %[n], #96\n"
        "5: lsr %[i], %[i], #1\n"
        "cbz %[i], 7f\n"
        "6:\n" STROBE_BF_CHUNK12(0, 0) "subs %[i], %[i], #1\n" STROBE_BF_CHUNK12(64, 96)
        "add %[m], %[m], #128\n add %[n], %[n], #192\n"
        "b.ne 6b\n"
        "7: add %[m], %[m], %[m_next]\n sub %[n], %[n], %[n_back]\n"
        "subs %[panels], %[panels], #1\n"
        "b.ne 2b\n" STROBE_BF_ROWS12(STROBE_BF_STORE6)
        : [m] "+r"(m), [n] "+r"(n), [c] "+r"(c), [next] "+r"(next), [i] "+r"(i), [panels] "+r"(panels)
        : [chunks] "r"(chunks), [m_next] "r"(m_next), [n_back] "r"(n_back), [load] "r"(load_c)
        : STROBE_NEON_CLOBBERS);
  }

  // Computes an even number of tiles. A tile consists of three half panels, so three panels make two tiles.
  static void tiles_12x8(const Element* m, std::ptrdiff_t m_stride, const Element* n, std::int64_t chunks,
                         std::int64_t tiles, float* c, bool accumulate) {
    const std::int64_t back = chunks * kK * 8 * 2;  // bytes
    // From one tile to the next, ma and mc advance by one panel plus half a chunk (near), mb by two panels minus half a
    // chunk (far). The two distances swap after each tile.
    std::int64_t near = m_stride * 2 + 32 - back, far = m_stride * 4 - 32 - back, swap = 0;
    const std::int64_t load_c = accumulate;
    std::int64_t i = 0;
    const Element *ma = m, *mb = m + 16, *mc = m + m_stride;
    float* next = c;
    asm volatile(
        "mov %[i], %[chunks]\n"
        "cbz %[load], 1f\n" STROBE_BF_SIX_PAIRS(STROBE_BF_LOAD4) "b 4f\n"
        "1:\n" STROBE_BF_SIX_PAIRS(STROBE_BF_ZERO4) "b 4f\n"
        "2: sub %[i], %[chunks], #1\n"
        "add %[next], %[c], #384\n"
        "cbnz %[load], 3f\n" STROBE_BF_TURN8(STROBE_BF_ZERO4)
        "mov %[c], %[next]\n add %[n], %[n], #64\n"
        "add %[ma], %[ma], #64\n add %[mb], %[mb], #64\n add %[mc], %[mc], #64\n"
        "b 4f\n"
        "3:\n" STROBE_BF_TURN8(STROBE_BF_LOAD4)
        "mov %[c], %[next]\n add %[n], %[n], #64\n"
        "add %[ma], %[ma], #64\n add %[mb], %[mb], #64\n add %[mc], %[mc], #64\n"
        "4: tbz %[i], #0, 5f\n" STROBE_BF_CHUNK8(0)
        "add %[n], %[n], #64\n add %[ma], %[ma], #64\n add %[mb], %[mb], #64\n add %[mc], %[mc], #64\n"
        "5: lsr %[i], %[i], #1\n"
        "cbz %[i], 7f\n"
        "6:\n" STROBE_BF_CHUNK8(0) "subs %[i], %[i], #1\n" STROBE_BF_CHUNK8(64)
        "add %[n], %[n], #128\n add %[ma], %[ma], #128\n add %[mb], %[mb], #128\n add %[mc], %[mc], #128\n"
        "b.ne 6b\n"
        "7: sub %[n], %[n], %[back]\n"
        "add %[ma], %[ma], %[near]\n add %[mb], %[mb], %[far]\n add %[mc], %[mc], %[near]\n"
        "mov %[swap], %[near]\n mov %[near], %[far]\n mov %[far], %[swap]\n"
        "subs %[tiles], %[tiles], #1\n"
        "b.ne 2b\n" STROBE_BF_SIX_PAIRS(STROBE_BF_STORE4)
        : [ma] "+r"(ma), [mb] "+r"(mb), [mc] "+r"(mc), [n] "+r"(n), [c] "+r"(c), [next] "+r"(next), [i] "+r"(i),
          [tiles] "+r"(tiles), [near] "+r"(near), [far] "+r"(far), [swap] "+r"(swap)
        : [chunks] "r"(chunks), [back] "r"(back), [load] "r"(load_c)
        : STROBE_NEON_CLOBBERS);
  }

  static void tile_8x8(const Element* m, const Element* n, std::int64_t chunks, float* c, bool accumulate) {
    const std::int64_t load_c = accumulate;
    asm volatile(
        "cbz %[load], 1f\n" STROBE_BF_FOUR_PAIRS(STROBE_BF_LOAD4) "b 2f\n"
        "1:\n" STROBE_BF_FOUR_PAIRS(STROBE_BF_ZERO4)
        "2:\n" STROBE_BF_HALF_CHUNK8("m]", "m], #32", 0)
        STROBE_BF_MMLA4(6, 16, 17, 18, 19) STROBE_BF_MMLA4(7, 20, 21, 22, 23)
        "add %[m], %[m], #64\n add %[n], %[n], #64\n"
        "subs %[chunks], %[chunks], #1\n"
        "b.ne 2b\n" STROBE_BF_FOUR_PAIRS(STROBE_BF_STORE4)
        : [m] "+r"(m), [n] "+r"(n), [chunks] "+r"(chunks)
        : [c] "r"(c), [next] "r"(c), [load] "r"(load_c)
        : STROBE_NEON_CLOBBERS);
  }
};

}  // namespace
}  // namespace strobe::cpu
