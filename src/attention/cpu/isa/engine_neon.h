// fp32 on NEON: an 8 x 12 (query lanes) or 8 x 8 (columns) tile of accumulators, FMLA by element. In assembly, because
// GCC 12 spills the 24 accumulators. Used by neon.cpp; neonbf16.cpp shares the clobber list.
#pragma once

#include "attention/cpu/isa.h"
#include "attention/cpu/isa/pack_neon.h"
#include "core/simd.h"

// A line of a macro is a line of assembly.
// clang-format off

// Rows of the tile are consecutive registers from v8 on, as they lie in memory.
#define STROBE_NEON_CLOBBERS                                                                                     \
  "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", \
      "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29",   \
      "v30", "v31"

// Store 8 accumulators, or add C to them, 128 bytes from `at`. C is added at the end: begun with it, every step of a
// long sum would be rounded to the size of the whole.
#define STROBE_NEON_STORE8(a, b, c, d, e, f, g, h, at)                                         \
  "stp q" #a ", q" #b ", [%[c], #" #at "]\n stp q" #c ", q" #d ", [%[c], #" #at "+32]\n"       \
  "stp q" #e ", q" #f ", [%[c], #" #at "+64]\n stp q" #g ", q" #h ", [%[c], #" #at "+96]\n"
#define STROBE_NEON_ADD8(a, b, c, d, e, f, g, h, at)                                           \
  "ldp q0, q1, [%[c], #" #at "]\n ldp q2, q3, [%[c], #" #at "+32]\n"                           \
  "ldp q4, q5, [%[c], #" #at "+64]\n ldp q6, q7, [%[c], #" #at "+96]\n"                        \
  "fadd v" #a ".4s, v" #a ".4s, v0.4s\n fadd v" #b ".4s, v" #b ".4s, v1.4s\n"                  \
  "fadd v" #c ".4s, v" #c ".4s, v2.4s\n fadd v" #d ".4s, v" #d ".4s, v3.4s\n"                  \
  "fadd v" #e ".4s, v" #e ".4s, v4.4s\n fadd v" #f ".4s, v" #f ".4s, v5.4s\n"                  \
  "fadd v" #g ".4s, v" #g ".4s, v6.4s\n fadd v" #h ".4s, v" #h ".4s, v7.4s\n"
#define STROBE_NEON_C16(op) op(8, 9, 10, 11, 12, 13, 14, 15, 0) op(16, 17, 18, 19, 20, 21, 22, 23, 128)
#define STROBE_NEON_C24(op) STROBE_NEON_C16(op) op(24, 25, 26, 27, 28, 29, 30, 31, 256)
#define STROBE_NEON_ZERO8(a, b, c, d, e, f, g, h)                                                        \
  "movi v" #a ".2d, #0\n movi v" #b ".2d, #0\n movi v" #c ".2d, #0\n movi v" #d ".2d, #0\n movi v" #e ".2d, #0\n" \
  "movi v" #f ".2d, #0\n movi v" #g ".2d, #0\n movi v" #h ".2d, #0\n"
#define STROBE_NEON_ZERO16 \
  STROBE_NEON_ZERO8(8, 9, 10, 11, 12, 13, 14, 15) STROBE_NEON_ZERO8(16, 17, 18, 19, 20, 21, 22, 23)
#define STROBE_NEON_ZERO24 STROBE_NEON_ZERO16 STROBE_NEON_ZERO8(24, 25, 26, 27, 28, 29, 30, 31)

// One row: its accumulators += the columns in v0.. times element `lane` of register m.
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

// clang-format on

namespace strobe::cpu {
namespace {

struct NeonEngine : NeonPack {
  using Element = float;
  static constexpr DType kCompute = DType::fp32;
  static constexpr int kM = 8, kN = 12, kCols = 8, kK = 1, kP = 1;

  // Four steps at a time, then one by one. 93 % of the FMLA rate at 64 steps, 95 % at 256.
  template <int Width>
  static void product(const float* m, const float* n, int steps, float* c, bool accumulate) {
    std::int64_t i = 0;
    const std::int64_t count = steps, add_c = accumulate;
    if constexpr (Width == 12) {
      asm volatile(
          STROBE_NEON_ZERO24
          "lsr %[i], %[count], #2\n"
          "cbz %[i], 4f\n"
          "3: ldp q0, q1, [%[n]]\n ldp q3, q4, [%[m]]\n ldr q2, [%[n], #32]\n ldp q5, q6, [%[m], #32]\n"
          "subs %[i], %[i], #1\n" STROBE_STEP12(3, 4)
          "ldp q0, q1, [%[n], #48]\n ldr q2, [%[n], #80]\n ldp q3, q4, [%[m], #64]\n" STROBE_STEP12(5, 6)
          "ldp q0, q1, [%[n], #96]\n ldr q2, [%[n], #128]\n ldp q5, q6, [%[m], #96]\n" STROBE_STEP12(3, 4)
          "ldp q0, q1, [%[n], #144]\n ldr q2, [%[n], #176]\n"
          "add %[m], %[m], #128\n add %[n], %[n], #192\n" STROBE_STEP12(5, 6)
          "b.ne 3b\n"
          "4: ands %[i], %[count], #3\n"
          "b.eq 6f\n"
          "5: ldp q3, q4, [%[m]], #32\n ldp q0, q1, [%[n]]\n ldr q2, [%[n], #32]\n"
          "add %[n], %[n], #48\n subs %[i], %[i], #1\n" STROBE_STEP12(3, 4)
          "b.ne 5b\n"
          "6: cbz %[add], 7f\n" STROBE_NEON_C24(STROBE_NEON_ADD8)
          "7:\n" STROBE_NEON_C24(STROBE_NEON_STORE8)
          : [m] "+r"(m), [n] "+r"(n), [i] "+r"(i)
          : [c] "r"(c), [count] "r"(count), [add] "r"(add_c)
          : STROBE_NEON_CLOBBERS);
    } else {
      static_assert(Width == 8);
      asm volatile(
          STROBE_NEON_ZERO16
          "lsr %[i], %[count], #2\n"
          "cbz %[i], 4f\n"
          "3: ldp q0, q1, [%[n]]\n ldp q3, q4, [%[m]]\n ldp q5, q6, [%[m], #32]\n"
          "subs %[i], %[i], #1\n" STROBE_STEP8(3, 4)
          "ldp q0, q1, [%[n], #32]\n ldp q3, q4, [%[m], #64]\n" STROBE_STEP8(5, 6)
          "ldp q0, q1, [%[n], #64]\n ldp q5, q6, [%[m], #96]\n" STROBE_STEP8(3, 4)
          "ldp q0, q1, [%[n], #96]\n add %[m], %[m], #128\n add %[n], %[n], #128\n" STROBE_STEP8(5, 6)
          "b.ne 3b\n"
          "4: ands %[i], %[count], #3\n"
          "b.eq 6f\n"
          "5: ldp q3, q4, [%[m]], #32\n ldp q0, q1, [%[n]], #32\n subs %[i], %[i], #1\n" STROBE_STEP8(3, 4)
          "b.ne 5b\n"
          "6: cbz %[add], 7f\n" STROBE_NEON_C16(STROBE_NEON_ADD8)
          "7:\n" STROBE_NEON_C16(STROBE_NEON_STORE8)
          : [m] "+r"(m), [n] "+r"(n), [i] "+r"(i)
          : [c] "r"(c), [count] "r"(count), [add] "r"(add_c)
          : STROBE_NEON_CLOBBERS);
    }
  }

  // Tile [8 keys][12 lanes] to 12 steps of 8 rows.
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

}  // namespace
}  // namespace strobe::cpu
