// Wrappers of PTX instructions: shared memory by 32-bit address, cp.async, ldmatrix, mma.sync, conversions, and memory
// ordering between blocks. Used by sm80/ and sm90/; all instructions exist from sm_80 on.
#pragma once

#include <cstdint>

namespace strobe::cuda {

// Tags of 16-bit element types. Kernels store elements as bits; only functions with a tag interpret them.
struct Fp16 {};
struct Bf16 {};

// Address of the block's dynamic shared memory, a multiple of 1024.
__device__ __forceinline__ std::uint32_t shared_base() {
  extern __shared__ __align__(1024) unsigned char memory[];
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(memory));
}

// Copies `bytes` bytes (0 to 16) from global to shared memory with cp.async, and fills the rest of the 16 bytes with
// zeros.
__device__ __forceinline__ void copy_async_16(std::uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

// Prefetches a cache line of global memory to L1.
__device__ __forceinline__ void prefetch_line(const void* address) {
  asm volatile("prefetch.global.L1 [%0];" ::"l"(address));
}

__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `kPending` of this thread's commit groups are pending.
template <int kPending>
__device__ __forceinline__ void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__device__ __forceinline__ void block_sync() { __syncthreads(); }
__device__ __forceinline__ void warp_sync() { __syncwarp(); }

template <class Value>
__device__ __forceinline__ Value shuffle_xor(Value value, int lanes) {
  return __shfl_xor_sync(0xffffffffu, value, lanes);
}

// Minimum and maximum over the warp.
__device__ __forceinline__ std::uint32_t warp_min(std::uint32_t value) { return __reduce_min_sync(0xffffffffu, value); }
__device__ __forceinline__ std::uint32_t warp_max(std::uint32_t value) { return __reduce_max_sync(0xffffffffu, value); }
__device__ __forceinline__ int warp_max(int value) { return __reduce_max_sync(0xffffffffu, value); }

// Loads four 8x8 matrices of 16-bit elements; lane l passes the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void load_matrices(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void load_matrices_transposed(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// Transposes an 8x8 matrix of 16-bit elements; lane l has the elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4.
__device__ __forceinline__ std::uint32_t transpose_matrix(std::uint32_t pair) {
  std::uint32_t transposed;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(pair));
  return transposed;
}

__device__ __forceinline__ void store_shared(std::uint32_t address, std::uint32_t value) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

__device__ __forceinline__ void store_shared(std::uint32_t address, const std::uint32_t (&v)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
               : "memory");
}

__device__ __forceinline__ void store_shared_pair(std::uint32_t address, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(x), "f"(y) : "memory");
}

__device__ __forceinline__ std::uint32_t load_shared(std::uint32_t address) {
  std::uint32_t value;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}

__device__ __forceinline__ float2 load_shared_pair(std::uint32_t address) {
  float2 pair;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(pair.x), "=f"(pair.y) : "r"(address) : "memory");
  return pair;
}

__device__ __forceinline__ void load_shared(std::uint32_t (&v)[4], std::uint32_t address) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(address)
               : "memory");
}

// c [16x8, fp32] += a [16x16] b [16x8].
template <class T>
__device__ __forceinline__ void mma(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1);

template <>
__device__ __forceinline__ void mma<Fp16>(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                          std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, "
      "%3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void mma<Bf16>(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                          std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, "
      "%2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Packs two values rounded to nearest even, the first in the low half.
template <class T>
__device__ __forceinline__ std::uint32_t pack(float low, float high);

template <>
__device__ __forceinline__ std::uint32_t pack<Fp16>(float low, float high) {
  std::uint32_t bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

template <>
__device__ __forceinline__ std::uint32_t pack<Bf16>(float low, float high) {
  std::uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

// pack() of the larger of 0 and each value.
template <class T>
__device__ __forceinline__ std::uint32_t pack_positive(float low, float high);

template <>
__device__ __forceinline__ std::uint32_t pack_positive<Fp16>(float low, float high) {
  std::uint32_t bits;
  asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

template <>
__device__ __forceinline__ std::uint32_t pack_positive<Bf16>(float low, float high) {
  std::uint32_t bits;
  asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

template <class T>
__device__ __forceinline__ float unpack(std::uint16_t bits);

template <>
__device__ __forceinline__ float unpack<Fp16>(std::uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

template <>
__device__ __forceinline__ float unpack<Bf16>(std::uint16_t bits) {
  return __uint_as_float(static_cast<std::uint32_t>(bits) << 16);
}

// 2^x on the special function unit. The error is at most 2 ulp; results below 2^-126 become 0.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Multiplication that the compiler never fuses into an FMA: scores must be identical in every kernel.
__device__ __forceinline__ float multiply_rounded(float a, float b) { return __fmul_rn(a, b); }

__device__ __forceinline__ float tanh_fast(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float bits_to_float(std::uint32_t bits) { return __uint_as_float(bits); }
__device__ __forceinline__ std::uint32_t float_to_bits(float value) { return __float_as_uint(value); }

// Adds to global memory atomically without returning a result (red). From sm_90 on one instruction adds four
// consecutive floats.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
inline constexpr bool kReductionIsVector = true;
__device__ __forceinline__ void reduce_add(float* to, const float (&c)[4]) {
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3])
               : "memory");
}
#else
inline constexpr bool kReductionIsVector = false;
__device__ void reduce_add(float* to, const float (&c)[4]);  // declared only; never called
#endif

__device__ __forceinline__ void reduce_add(float* to, float value) {
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(to), "f"(value) : "memory");
}

// Semaphores that order blocks. After a block_sync(), one thread calls release(). When watch() returns the released
// value, the additions that the releasing block issued before its block_sync() precede those of the waiting block.
// watch() is relaxed, because the waiting block only adds; it loads nothing that the other block wrote. release() takes
// the maximum, so a semaphore never decreases, even if invalid offsets of packed sequences make blocks share it.
__device__ __forceinline__ std::uint32_t watch(const std::uint32_t* from) {
  std::uint32_t value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

__device__ __forceinline__ void release(std::uint32_t* to, std::uint32_t value) {
  asm volatile("red.release.gpu.global.max.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

__device__ __forceinline__ std::uint32_t take_work_index(std::uint32_t* counter) { return atomicAdd(counter, 1u); }

}  // namespace strobe::cuda
