// wgmma wrappers for all Hopper kernels. A warpgroup (four warps, 128 threads) computes C[64][N] (+)= A[64][16]
// B[16][N] in one instruction. The fp32 accumulators are in the threads' registers, B is in shared memory, and A in
// shared memory or registers. wgmma is asynchronous:
//   wgmma_begin(); mma_nt(...); ...; wgmma_commit(); ...; wgmma_wait<left>(accumulators...);
// Between begin and wait no code may access the accumulators or the registers of an A operand.
//
// Thread t of the warpgroup has the rows r = t / 32 * 16 + t % 32 / 4 and r + 8 of C:
//   c[4 i], c[4 i + 1]: row r, columns 8 i + t % 4 * 2 and the next;  c[4 i + 2], c[4 i + 3]: the same of row r + 8.
// A in registers has the same layout with two 16-bit elements per register: a[0] row r, a[1] row r + 8, a[2] and a[3]
// the same eight columns later. The rounded result of one matmul is therefore the A operand of the next.
#pragma once

#include <cstdint>

#include "attention/cuda/device/ptx.cuh"

namespace strobe::cuda::sm90 {

// Shared-memory matrix descriptor: rows of 64 columns of 16 bits (128 bytes), in groups of 8 rows (1024 bytes), with
// TMA's 128-byte swizzle. A matrix of more than 64 columns consists of slabs of such rows, `slab` bytes apart. The
// address is a multiple of 1024, plus 32 per further 16 columns.
struct Operand {
  std::uint64_t bits;

  // `slab` matters only if one instruction reads columns of two slabs: MN-major B with more than 64 columns.
  __device__ __forceinline__ explicit Operand(std::uint32_t address, std::uint32_t slab = 16) {
    constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62, kGroup = std::uint64_t{1024 >> 4} << 32;
    bits = ((address & 0x3ffff) >> 4) | (std::uint64_t{slab >> 4} << 16) | kGroup | kSwizzle128;
  }
  __device__ __forceinline__ Operand plus(std::uint32_t bytes) const {
    Operand moved = *this;
    moved.bits += bytes >> 4;
    return moved;
  }
};

__device__ __forceinline__ void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Compiler fence: marks these registers as written here, so that no read of them moves ahead of a wait.
template <int kCount>
__device__ __forceinline__ void settle(float (&c)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(c[i])::"memory");
}
template <int kCount>
__device__ __forceinline__ void settle(std::uint32_t (&a)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(a[i])::"memory");
}

// Waits until at most kLeft committed groups are in flight; `registers` are those of the completed groups.
template <int kLeft, class... Registers>
__device__ __forceinline__ void wgmma_wait(Registers&... registers) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
  (settle(registers), ...);
}

// Layout of B in shared memory:
// columns: K-major, one row of 64 k values per column of C, as K for Q K^T.
// steps: MN-major, one row of 64 columns of C per k value, as V for P V.
enum class RowsAre { columns, steps };

template <class T, int kN, RowsAre kRows>
struct Wgmma;  // run(c, a, b, accumulate): a is an Operand or four registers; run_transposed: A is MN-major

#define STROBE_C8(i)                                                                                          \
  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), "+f"(c[i + 6]), \
      "+f"(c[i + 7])
#define STROBE_L0 "%0,%1,%2,%3,%4,%5,%6,%7"
#define STROBE_L1 "%8,%9,%10,%11,%12,%13,%14,%15"
#define STROBE_L2 "%16,%17,%18,%19,%20,%21,%22,%23"
#define STROBE_L3 "%24,%25,%26,%27,%28,%29,%30,%31"
#define STROBE_L4 "%32,%33,%34,%35,%36,%37,%38,%39"
#define STROBE_L5 "%40,%41,%42,%43,%44,%45,%46,%47"
#define STROBE_L6 "%48,%49,%50,%51,%52,%53,%54,%55"
#define STROBE_L7 "%56,%57,%58,%59,%60,%61,%62,%63"
#define STROBE_L8 "%64,%65,%66,%67,%68,%69,%70,%71"
#define STROBE_L9 "%72,%73,%74,%75,%76,%77,%78,%79"
#define STROBE_L10 "%80,%81,%82,%83,%84,%85,%86,%87"
#define STROBE_L11 "%88,%89,%90,%91,%92,%93,%94,%95"
#define STROBE_L12 "%96,%97,%98,%99,%100,%101,%102,%103"
#define STROBE_L13 "%104,%105,%106,%107,%108,%109,%110,%111"
#define STROBE_L14 "%112,%113,%114,%115,%116,%117,%118,%119"
#define STROBE_L15 "%120,%121,%122,%123,%124,%125,%126,%127"

// N columns are N / 2 accumulators, operands %0 to %(N/2 - 1). The four operands after them are I0 .. I3 with A in
// shared memory; the seven after them are I0 .. I6 with A in registers.
#define STROBE_WGMMA_TYPE(T, TYPE, N, LIST, I0, I1, I2, I3, I4, I5, I6, ...)                                          \
  template <RowsAre kRows>                                                                                            \
  struct Wgmma<T, N, kRows> {                                                                                         \
    static __device__ __forceinline__ void run_transposed(float (&c)[N / 2], Operand a, Operand b, bool accumulate) { \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" I2 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N               \
                   "k16.f32." TYPE " {" LIST "}, %" I0 ", %" I1 ", p, 1, 1, 1, %" I3 ";\n}\n"                         \
                   : __VA_ARGS__                                                                                      \
                   : "l"(a.bits), "l"(b.bits), "r"(static_cast<int>(accumulate)),                                     \
                     "n"(kRows == RowsAre::steps ? 1 : 0));                                                           \
    }                                                                                                                 \
    static __device__ __forceinline__ void run(float (&c)[N / 2], Operand a, Operand b, bool accumulate) {            \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" I2 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N               \
                   "k16.f32." TYPE " {" LIST "}, %" I0 ", %" I1 ", p, 1, 1, 0, %" I3 ";\n}\n"                         \
                   : __VA_ARGS__                                                                                      \
                   : "l"(a.bits), "l"(b.bits), "r"(static_cast<int>(accumulate)),                                     \
                     "n"(kRows == RowsAre::steps ? 1 : 0));                                                           \
    }                                                                                                                 \
    static __device__ __forceinline__ void run(float (&c)[N / 2], const std::uint32_t* a, Operand b,                  \
                                               bool accumulate) {                                                     \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" I5 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N               \
                   "k16.f32." TYPE " {" LIST "}, {%" I0 ",%" I1 ",%" I2 ",%" I3 "}, %" I4 ", p, 1, 1, %" I6 ";\n}\n"  \
                   : __VA_ARGS__                                                                                      \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits), "r"(static_cast<int>(accumulate)),      \
                     "n"(kRows == RowsAre::steps ? 1 : 0));                                                           \
    }                                                                                                                 \
  };
#define STROBE_WGMMA(N, LIST, I0, I1, I2, I3, I4, I5, I6, ...)                           \
  STROBE_WGMMA_TYPE(Bf16, "bf16.bf16", N, LIST, I0, I1, I2, I3, I4, I5, I6, __VA_ARGS__) \
  STROBE_WGMMA_TYPE(Fp16, "f16.f16", N, LIST, I0, I1, I2, I3, I4, I5, I6, __VA_ARGS__)

STROBE_WGMMA(32, STROBE_L0 "," STROBE_L1, "16", "17", "18", "19", "20", "21", "22", STROBE_C8(0), STROBE_C8(8))
STROBE_WGMMA(64, STROBE_L0 "," STROBE_L1 "," STROBE_L2 "," STROBE_L3, "32", "33", "34", "35", "36", "37", "38",
             STROBE_C8(0), STROBE_C8(8), STROBE_C8(16), STROBE_C8(24))
STROBE_WGMMA(80, STROBE_L0 "," STROBE_L1 "," STROBE_L2 "," STROBE_L3 "," STROBE_L4, "40", "41", "42", "43", "44", "45",
             "46", STROBE_C8(0), STROBE_C8(8), STROBE_C8(16), STROBE_C8(24), STROBE_C8(32))
STROBE_WGMMA(96, STROBE_L0 "," STROBE_L1 "," STROBE_L2 "," STROBE_L3 "," STROBE_L4 "," STROBE_L5, "48", "49", "50",
             "51", "52", "53", "54", STROBE_C8(0), STROBE_C8(8), STROBE_C8(16), STROBE_C8(24), STROBE_C8(32),
             STROBE_C8(40))
STROBE_WGMMA(112, STROBE_L0 "," STROBE_L1 "," STROBE_L2 "," STROBE_L3 "," STROBE_L4 "," STROBE_L5 "," STROBE_L6, "56",
             "57", "58", "59", "60", "61", "62", STROBE_C8(0), STROBE_C8(8), STROBE_C8(16), STROBE_C8(24),
             STROBE_C8(32), STROBE_C8(40), STROBE_C8(48))
STROBE_WGMMA(128,
             STROBE_L0 "," STROBE_L1 "," STROBE_L2 "," STROBE_L3 "," STROBE_L4 "," STROBE_L5 "," STROBE_L6
                       "," STROBE_L7,
             "64", "65", "66", "67", "68", "69", "70", STROBE_C8(0), STROBE_C8(8), STROBE_C8(16), STROBE_C8(24),
             STROBE_C8(32), STROBE_C8(40), STROBE_C8(48), STROBE_C8(56))
STROBE_WGMMA(176,
             STROBE_L0 "," STROBE_L1 "," STROBE_L2 "," STROBE_L3 "," STROBE_L4 "," STROBE_L5 "," STROBE_L6 "," STROBE_L7
                       "," STROBE_L8 "," STROBE_L9 "," STROBE_L10,
             "88", "89", "90", "91", "92", "93", "94", STROBE_C8(0), STROBE_C8(8), STROBE_C8(16), STROBE_C8(24),
             STROBE_C8(32), STROBE_C8(40), STROBE_C8(48), STROBE_C8(56), STROBE_C8(64), STROBE_C8(72), STROBE_C8(80))
STROBE_WGMMA(192,
             STROBE_L0 "," STROBE_L1 "," STROBE_L2 "," STROBE_L3 "," STROBE_L4 "," STROBE_L5 "," STROBE_L6 "," STROBE_L7
                       "," STROBE_L8 "," STROBE_L9 "," STROBE_L10 "," STROBE_L11,
             "96", "97", "98", "99", "100", "101", "102", STROBE_C8(0), STROBE_C8(8), STROBE_C8(16), STROBE_C8(24),
             STROBE_C8(32), STROBE_C8(40), STROBE_C8(48), STROBE_C8(56), STROBE_C8(64), STROBE_C8(72), STROBE_C8(80),
             STROBE_C8(88))
STROBE_WGMMA(256,
             STROBE_L0 "," STROBE_L1 "," STROBE_L2 "," STROBE_L3 "," STROBE_L4 "," STROBE_L5 "," STROBE_L6 "," STROBE_L7
                       "," STROBE_L8 "," STROBE_L9 "," STROBE_L10 "," STROBE_L11 "," STROBE_L12 "," STROBE_L13
                       "," STROBE_L14 "," STROBE_L15,
             "128", "129", "130", "131", "132", "133", "134", STROBE_C8(0), STROBE_C8(8), STROBE_C8(16), STROBE_C8(24),
             STROBE_C8(32), STROBE_C8(40), STROBE_C8(48), STROBE_C8(56), STROBE_C8(64), STROBE_C8(72), STROBE_C8(80),
             STROBE_C8(88), STROBE_C8(96), STROBE_C8(104), STROBE_C8(112), STROBE_C8(120))

// Tiles [rows][columns] of 16-bit elements in shared memory, in slabs of 64 columns.
template <int kTileRows>
inline constexpr std::uint32_t kSlabBytes = kTileRows * 128;
template <int kTileRows, int kColumns>
inline constexpr std::uint32_t kSlabsBytes = (kColumns + 63) / 64 * kSlabBytes<kTileRows>;

// C[64][kN] (+)= A[64][kSteps] B[kN][kSteps]^T. a: the first of this warpgroup's 64 rows in a tile of kARows rows; b:
// the first of kN rows in a tile of kBRows rows.
template <class T, int kN, int kSteps, int kARows, int kBRows = kN>
__device__ __forceinline__ void mma_nt(float (&c)[kN / 2], std::uint32_t a, std::uint32_t b, bool accumulate) {
  const Operand a0(a), b0(b);
#pragma unroll
  for (int k = 0; k < kSteps / 16; ++k) {
    Wgmma<T, kN, RowsAre::columns>::run(c, a0.plus(k / 4 * kSlabBytes<kARows> + k % 4 * 32),
                                        b0.plus(k / 4 * kSlabBytes<kBRows> + k % 4 * 32), accumulate || k > 0);
  }
}

// C[64][kN] (+)= A[64][kSteps] B[kSteps][kN], A in registers.
template <class T, int kN, int kSteps>
__device__ __forceinline__ void mma_nn(float (&c)[kN / 2], const std::uint32_t (&a)[kSteps / 4], std::uint32_t b,
                                       bool accumulate) {
  const Operand b0(b, kSlabBytes<kSteps>);
#pragma unroll
  for (int k = 0; k < kSteps / 16; ++k) {
    Wgmma<T, kN, RowsAre::steps>::run(c, a + 4 * k, b0.plus(k * 2048), accumulate || k > 0);
  }
}

// mma_nn() with A in shared memory: 64 rows of at most 64 k values.
template <class T, int kN, int kSteps>
__device__ __forceinline__ void mma_nn(float (&c)[kN / 2], std::uint32_t a, std::uint32_t b, bool accumulate) {
  static_assert(kSteps <= 64);
  const Operand a0(a), b0(b, kSlabBytes<kSteps>);
#pragma unroll
  for (int k = 0; k < kSteps / 16; ++k) {
    Wgmma<T, kN, RowsAre::steps>::run(c, a0.plus(k * 32), b0.plus(k * 2048), accumulate || k > 0);
  }
}

// C[64][kN] (+)= A[kSteps][64]^T B[kSteps][kN], A in shared memory: one slab.
template <class T, int kN, int kSteps>
__device__ __forceinline__ void mma_tn(float (&c)[kN / 2], std::uint32_t a, std::uint32_t b, bool accumulate) {
  const Operand a0(a), b0(b, kSlabBytes<kSteps>);
#pragma unroll
  for (int k = 0; k < kSteps / 16; ++k) {
    Wgmma<T, kN, RowsAre::steps>::run_transposed(c, a0.plus(k * 2048), b0.plus(k * 2048), accumulate || k > 0);
  }
}

// C[64][kN] (+)= A[kSteps][64]^T B[kN][kSteps]^T, both in shared memory; A: one slab.
template <class T, int kN, int kSteps>
__device__ __forceinline__ void mma_tt(float (&c)[kN / 2], std::uint32_t a, std::uint32_t b, bool accumulate) {
  const Operand a0(a), b0(b);
#pragma unroll
  for (int k = 0; k < kSteps / 16; ++k) {
    Wgmma<T, kN, RowsAre::columns>::run_transposed(c, a0.plus(k * 2048), b0.plus(k / 4 * kSlabBytes<kN> + k % 4 * 32),
                                                   accumulate || k > 0);
  }
}

// Rounds accumulators to the A operand of the next matmul.
template <class T, int kCount>
__device__ __forceinline__ void round_to_operand(std::uint32_t (&a)[kCount / 2], const float (&c)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) a[i] = pack<T>(c[2 * i], c[2 * i + 1]);
}

// Inverse of round_to_operand().
template <class T, int kCount>
__device__ __forceinline__ void unpack_operand(float (&c)[kCount], const std::uint32_t (&a)[kCount / 2]) {
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) {
    c[2 * i] = unpack<T>(static_cast<std::uint16_t>(a[i]));
    c[2 * i + 1] = unpack<T>(static_cast<std::uint16_t>(a[i] >> 16));
  }
}

}  // namespace strobe::cuda::sm90
