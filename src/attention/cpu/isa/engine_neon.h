// fp32 matmul on NEON with FMLA by element. The tile of accumulators is 8 x 12 for query lanes, and 8 x 8 for columns
// and tail panels. Written in assembly because GCC 12 spills the 24 accumulators. Used by neon.cpp; engine_neonbf16.h
// uses the clobber list. isa.h defines panels, chunks and steps.
#pragma once

#include "attention/cpu/isa.h"
#include "attention/cpu/isa/pack_neon.h"
#include "core/simd.h"

// The line breaks group instructions, so they are not reformatted.
// clang-format off

// Registers that the assembly uses. The tile of accumulators is in v8 and the following registers, row by row as in
// memory.
#define STROBE_NEON_CLOBBERS                                                                                     \
  "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", \
      "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29",   \
      "v30", "v31"

// Store the sums in registers a and b to C, `at` bytes from its start. ADD2 adds C to the finished sums first. The sums do
// not start from C, because then every step would round at the magnitude of the final sum. MAX2 also raises the column maxima in registers x and y.
#define STROBE_NEON_STORE2(a, b, at, x, y) "stp q" #a ", q" #b ", [%[c], #" #at "]\n"
#define STROBE_NEON_ADD2(a, b, at, x, y)                                                                 \
  "ldp q5, q6, [%[c], #" #at "]\n fadd v" #a ".4s, v" #a ".4s, v5.4s\n fadd v" #b ".4s, v" #b ".4s, v6.4s\n" \
  STROBE_NEON_STORE2(a, b, at, x, y)
#define STROBE_NEON_MAX2(a, b, at, x, y)                                                                 \
  "fmaxnm v" #x ".4s, v" #x ".4s, v" #a ".4s\n fmaxnm v" #y ".4s, v" #y ".4s, v" #b ".4s\n"              \
  STROBE_NEON_STORE2(a, b, at, x, y)
// Stores nothing; for the first tile of a call, which has no previous tile to store.
#define STROBE_NEON_NOTHING2(a, b, at, x, y)

// One row of the tile: accumulators += (columns in v0 and following registers) * (element `lane` of register m).
#define STROBE_FMLA(a, n, m, lane) "fmla v" #a ".4s, v" #n ".4s, v" #m ".s[" #lane "]\n"
#define STROBE_ROW12(a, b, c, m, lane) STROBE_FMLA(a, 0, m, lane) STROBE_FMLA(b, 1, m, lane) STROBE_FMLA(c, 2, m, lane)
#define STROBE_ROW8(a, b, m, lane) STROBE_FMLA(a, 0, m, lane) STROBE_FMLA(b, 1, m, lane)
// One step of the contraction: rows 0..3 in register m0, 4..7 in m1.
#define STROBE_STEP12(m0, m1)                                                                            \
  STROBE_ROW12(8, 9, 10, m0, 0) STROBE_ROW12(11, 12, 13, m0, 1) STROBE_ROW12(14, 15, 16, m0, 2)          \
  STROBE_ROW12(17, 18, 19, m0, 3) STROBE_ROW12(20, 21, 22, m1, 0) STROBE_ROW12(23, 24, 25, m1, 1)        \
  STROBE_ROW12(26, 27, 28, m1, 2) STROBE_ROW12(29, 30, 31, m1, 3)
#define STROBE_STEP8(m0, m1)                                                                             \
  STROBE_ROW8(8, 9, m0, 0) STROBE_ROW8(10, 11, m0, 1) STROBE_ROW8(12, 13, m0, 2) STROBE_ROW8(14, 15, m0, 3) \
  STROBE_ROW8(16, 17, m1, 0) STROBE_ROW8(18, 19, m1, 1) STROBE_ROW8(20, 21, m1, 2) STROBE_ROW8(22, 23, m1, 3)

// First step of a tile, with rows 0..3 in v3 and 4..7 in v4. It stores each pair of the previous tile's sums just
// before overwriting it.
#define STROBE_FMUL(a, n, m, lane) "fmul v" #a ".4s, v" #n ".4s, v" #m ".s[" #lane "]\n"
#define STROBE_BEGIN_ROWS12(put, a, b, c, d, e, f, m, lane, next, at)                                    \
  put(a, b, at, 5, 6) STROBE_FMUL(a, 0, m, lane) STROBE_FMUL(b, 1, m, lane)                              \
  put(c, d, at + 32, 7, 5) STROBE_FMUL(c, 2, m, lane) STROBE_FMUL(d, 0, m, next)                         \
  put(e, f, at + 64, 6, 7) STROBE_FMUL(e, 1, m, next) STROBE_FMUL(f, 2, m, next)
#define STROBE_BEGIN12(put)                                                                              \
  STROBE_BEGIN_ROWS12(put, 8, 9, 10, 11, 12, 13, 3, 0, 1, 0)                                             \
  STROBE_BEGIN_ROWS12(put, 14, 15, 16, 17, 18, 19, 3, 2, 3, 96)                                          \
  STROBE_BEGIN_ROWS12(put, 20, 21, 22, 23, 24, 25, 4, 0, 1, 192)                                         \
  STROBE_BEGIN_ROWS12(put, 26, 27, 28, 29, 30, 31, 4, 2, 3, 288)
#define STROBE_BEGIN_ROW8(put, a, b, m, lane, at) put(a, b, at, 5, 6) STROBE_FMUL(a, 0, m, lane) STROBE_FMUL(b, 1, m, lane)
#define STROBE_BEGIN8(put)                                                                               \
  STROBE_BEGIN_ROW8(put, 8, 9, 3, 0, 0) STROBE_BEGIN_ROW8(put, 10, 11, 3, 1, 32)                         \
  STROBE_BEGIN_ROW8(put, 12, 13, 3, 2, 64) STROBE_BEGIN_ROW8(put, 14, 15, 3, 3, 96)                      \
  STROBE_BEGIN_ROW8(put, 16, 17, 4, 0, 128) STROBE_BEGIN_ROW8(put, 18, 19, 4, 1, 160)                    \
  STROBE_BEGIN_ROW8(put, 20, 21, 4, 2, 192) STROBE_BEGIN_ROW8(put, 22, 23, 4, 3, 224)

// clang-format on

namespace strobe::cpu {
namespace {

struct NarrowNeonEngine;

struct NeonEngine : NeonPack<12> {
  using Element = float;
  using Narrow = NarrowNeonEngine;
  static constexpr DType kCompute = DType::fp32;
  static constexpr int kM = 8, kN = 12, kCols = 8, kK = 1, kP = 1;
  static constexpr int kSmallSumChunk =
      128;  // as for larger matmuls: partial sums of 8 steps would cost 9 % of a forward and increase the error

  // Computes C_i (+)= M_i N for `panels` M panels. The first step initialises the sums, a loop then takes four steps at
  // a time, and a second loop the remaining steps. A tile's sums are stored while the next tile begins. Stores share
  // pipes with multiplies, and a store that waits for its sum stalls all later instructions. Reaches 98 % of
  // Neoverse-N1's FMLA rate at 64 steps.
  template <int Width>
  static void panel_matmuls(const float* m, std::ptrdiff_t m_stride, const float* n, int steps, int panels, float* c,
                            bool accumulate, float* largest = nullptr) {
    if (panels <= 0) return;
    if (steps == 0) {
      for (int at = 0; !accumulate && at < panels * kM * Width; at += kLanes) store(c + at, F32{});
      return;
    }
    std::int64_t i, left = panels;
    const std::int64_t rest = steps - 1, add_c = accumulate;
    const float* next_m = m;
    if constexpr (Width == 12) {
      asm volatile(
          "ldp q3, q4, [%[m]], #32\n ldp q0, q1, [%[n]]\n ldr q2, [%[n], #32]\n add %[n], %[n], #48\n"
          STROBE_BEGIN12(STROBE_NEON_NOTHING2)
          "2: lsr %[i], %[rest], #2\n"
          "add %[next_m], %[next_m], %[stride]\n"
          "cbz %[i], 4f\n"
          "3: ldp q0, q1, [%[n]]\n ldp q3, q4, [%[m]]\n ldr q2, [%[n], #32]\n ldp q5, q6, [%[m], #32]\n"
          "subs %[i], %[i], #1\n" STROBE_STEP12(3, 4)
          "ldp q0, q1, [%[n], #48]\n ldr q2, [%[n], #80]\n ldp q3, q4, [%[m], #64]\n" STROBE_STEP12(5, 6)
          "ldp q0, q1, [%[n], #96]\n ldr q2, [%[n], #128]\n ldp q5, q6, [%[m], #96]\n" STROBE_STEP12(3, 4)
          "ldp q0, q1, [%[n], #144]\n ldr q2, [%[n], #176]\n"
          "add %[m], %[m], #128\n add %[n], %[n], #192\n" STROBE_STEP12(5, 6)
          "b.ne 3b\n"
          "4: ands %[i], %[rest], #3\n"
          "b.eq 6f\n"
          "5: ldp q3, q4, [%[m]], #32\n ldp q0, q1, [%[n]]\n ldr q2, [%[n], #32]\n"
          "add %[n], %[n], #48\n subs %[i], %[i], #1\n" STROBE_STEP12(3, 4)
          "b.ne 5b\n"
          // First step of the next tile. After the last tile, first step of the first tile again; its result is not
          // used.
          "6: subs %[left], %[left], #1\n"
          "csel %[m], %[next_m], %[first_m], ne\n"
          "ldp q3, q4, [%[m]], #32\n ldp q0, q1, [%[first_n]]\n ldr q2, [%[first_n], #32]\n add %[n], %[first_n], #48\n"
          "cbnz %[largest], 9f\n"
          "cbnz %[add], 7f\n" STROBE_BEGIN12(STROBE_NEON_STORE2)
          "b 8f\n"
          "7:\n" STROBE_BEGIN12(STROBE_NEON_ADD2)
          "b 8f\n"
          "9: ldp q5, q6, [%[largest]]\n ldr q7, [%[largest], #32]\n" STROBE_BEGIN12(STROBE_NEON_MAX2)
          "stp q5, q6, [%[largest]]\n str q7, [%[largest], #32]\n"
          "8: add %[c], %[c], #384\n"
          "cbnz %[left], 2b\n"
          : [m] "+&r"(m), [n] "+&r"(n), [i] "=&r"(i), [left] "+&r"(left), [next_m] "+&r"(next_m), [c] "+&r"(c)
          : [rest] "r"(rest), [add] "r"(add_c), [first_n] "r"(n), [stride] "r"(m_stride * 4), [first_m] "r"(m), [largest] "r"(largest)
          : STROBE_NEON_CLOBBERS);
    } else {
      static_assert(Width == 8);
      asm volatile(
          "ldp q3, q4, [%[m]], #32\n ldp q0, q1, [%[n]], #32\n" STROBE_BEGIN8(STROBE_NEON_NOTHING2)
          "2: lsr %[i], %[rest], #2\n"
          "add %[next_m], %[next_m], %[stride]\n"
          "cbz %[i], 4f\n"
          "3: ldp q0, q1, [%[n]]\n ldp q3, q4, [%[m]]\n ldp q5, q6, [%[m], #32]\n"
          "subs %[i], %[i], #1\n" STROBE_STEP8(3, 4)
          "ldp q0, q1, [%[n], #32]\n ldp q3, q4, [%[m], #64]\n" STROBE_STEP8(5, 6)
          "ldp q0, q1, [%[n], #64]\n ldp q5, q6, [%[m], #96]\n" STROBE_STEP8(3, 4)
          "ldp q0, q1, [%[n], #96]\n add %[m], %[m], #128\n add %[n], %[n], #128\n" STROBE_STEP8(5, 6)
          "b.ne 3b\n"
          "4: ands %[i], %[rest], #3\n"
          "b.eq 6f\n"
          "5: ldp q3, q4, [%[m]], #32\n ldp q0, q1, [%[n]], #32\n subs %[i], %[i], #1\n" STROBE_STEP8(3, 4)
          "b.ne 5b\n"
          "6: subs %[left], %[left], #1\n"
          "csel %[m], %[next_m], %[first_m], ne\n"
          "ldp q3, q4, [%[m]], #32\n ldp q0, q1, [%[first_n]]\n add %[n], %[first_n], #32\n"
          "cbnz %[largest], 9f\n"
          "cbnz %[add], 7f\n" STROBE_BEGIN8(STROBE_NEON_STORE2)
          "b 8f\n"
          "7:\n" STROBE_BEGIN8(STROBE_NEON_ADD2)
          "b 8f\n"
          "9: ldp q5, q6, [%[largest]]\n" STROBE_BEGIN8(STROBE_NEON_MAX2)
          "stp q5, q6, [%[largest]]\n"
          "8: add %[c], %[c], #256\n"
          "cbnz %[left], 2b\n"
          : [m] "+&r"(m), [n] "+&r"(n), [i] "=&r"(i), [left] "+&r"(left), [next_m] "+&r"(next_m), [c] "+&r"(c)
          : [rest] "r"(rest), [add] "r"(add_c), [first_n] "r"(n), [stride] "r"(m_stride * 4), [first_m] "r"(m), [largest] "r"(largest)
          : STROBE_NEON_CLOBBERS);
    }
  }

  // Converts a tile [8 keys][12 lanes] to 12 steps of 8 rows.
  static void tile_to_m(const float* tile, float* out) {
    for (int lane = 0; lane < kN; lane += 4) {
      for (int r = 0; r < kM; r += 4) {
        F32 v[4];
        for (int i = 0; i < 4; ++i) v[i] = load(tile + (r + i) * kN + lane);
        transpose(v);
        for (int i = 0; i < 4; ++i) store(out + (lane + i) * kM + r, v[i]);
      }
    }
  }
};

// Tail panels of eight lanes. For example, 16 rows fill two such panels, but two panels of twelve lanes only to two
// thirds.
struct NarrowNeonEngine : NeonPack<8> {
  using Element = float;
  static constexpr DType kCompute = DType::fp32;
  static constexpr int kM = NeonEngine::kM, kN = 8, kCols = NeonEngine::kCols, kK = 1, kP = 1;

  template <int Width>
  static void panel_matmuls(const float* m, std::ptrdiff_t m_stride, const float* n, int steps, int panels, float* c,
                            bool accumulate, float* largest = nullptr) {
    NeonEngine::panel_matmuls<Width>(m, m_stride, n, steps, panels, c, accumulate, largest);
  }
};

}  // namespace
}  // namespace strobe::cpu
