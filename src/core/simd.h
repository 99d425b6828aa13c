// SIMD vectors on GCC's vector extensions, and the operations that need intrinsics. A vector is as wide as the
// registers of the instruction set for which the file is compiled. Only files in attention/cpu/isa/, ops/cpu/isa/ and
// device/cpu/isa/ include this header, directly or through simd_memory.h and simd_panel.h. The header uses only the
// fixed-width integers of the standard library. Otherwise portable code could be linked with an inline library function
// that was compiled here for AVX-512.
#pragma once

#include <cstdint>

#if defined(__AVX2__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"  // false positive of GCC 12 in _mm512_undefined_ps() and others
#ifndef __clang__                                 // clang has no such warning
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace strobe::cpu {
namespace {  // one copy per instruction set

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#elif defined(__AVX2__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif

typedef float F32 __attribute__((vector_size(4 * kLanes)));
typedef double F64 __attribute__((vector_size(8 * kLanes)));
typedef std::int32_t I32 __attribute__((vector_size(4 * kLanes)));
typedef std::uint32_t U32 __attribute__((vector_size(4 * kLanes)));
typedef std::uint64_t U64 __attribute__((vector_size(4 * kLanes)));
typedef std::uint16_t U16 __attribute__((vector_size(2 * kLanes)));

#define STROBE_INLINE inline __attribute__((always_inline))
#define STROBE_INLINE_LAMBDA __attribute__((always_inline))

// Unaligned loads and stores. They avoid memcpy, which GCC 12 compiles to a copy through the stack for 32-byte AVX2
// vectors.
template <class Vector, class Element>
STROBE_INLINE Vector load_vector(const Element* from) {
  typedef Vector Unaligned __attribute__((aligned(alignof(Element)), may_alias));
  return *reinterpret_cast<const Unaligned*>(from);
}
template <class Vector, class Element>
STROBE_INLINE void store_vector(Element* to, Vector v) {
  typedef Vector Unaligned __attribute__((aligned(alignof(Element)), may_alias));
  *reinterpret_cast<Unaligned*>(to) = v;
}
STROBE_INLINE F32 load(const float* from) { return load_vector<F32>(from); }
STROBE_INLINE I32 load(const std::int32_t* from) { return load_vector<I32>(from); }
STROBE_INLINE U16 load(const std::uint16_t* from) { return load_vector<U16>(from); }
STROBE_INLINE void store(float* to, F32 v) { store_vector<F32>(to, v); }
STROBE_INLINE void store(std::uint16_t* to, U16 v) { store_vector<U16>(to, v); }
// The compiler removes x - 0. It cannot remove x + 0, because -0 + 0 is +0.
STROBE_INLINE F32 broadcast(float x) { return x - F32{}; }
STROBE_INLINE I32 broadcast(std::int32_t x) { return I32{} + x; }
STROBE_INLINE U32 broadcast(std::uint32_t x) { return U32{} + x; }
STROBE_INLINE F32 as_float(U32 v) { return reinterpret_cast<F32>(v); }
STROBE_INLINE F32 as_float(I32 v) { return reinterpret_cast<F32>(v); }
STROBE_INLINE U32 as_bits(F32 v) { return reinterpret_cast<U32>(v); }

// Lane-wise maximum, unspecified for NaN. Softmax propagates NaN through its sum of exponentials instead.
STROBE_INLINE F32 max(F32 a, F32 b) {
#if defined(__AVX512F__)
  return (F32)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (F32)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__ARM_NEON)
  return (F32)vmaxnmq_f32((float32x4_t)a, (float32x4_t)b);
#else
  return a > b ? a : b;
#endif
}

// Lane-wise maximum; x where x is NaN.
STROBE_INLINE F32 max_keep_nan(F32 bound, F32 x) {
#if defined(__AVX2__)
  return max(bound, x);  // vmaxps returns its second operand if either is NaN
#elif defined(__ARM_NEON)
  return (F32)vmaxq_f32((float32x4_t)bound, (float32x4_t)x);  // returns NaN if either operand is NaN
#else
  return x < bound ? bound : x;
#endif
}

// Lane-wise minimum; x where x is NaN.
STROBE_INLINE F32 min_keep_nan(F32 bound, F32 x) {
#if defined(__AVX512F__)
  return (F32)_mm512_min_ps((__m512)bound, (__m512)x);
#elif defined(__AVX2__)
  return (F32)_mm256_min_ps((__m256)bound, (__m256)x);
#elif defined(__ARM_NEON)
  return (F32)vminq_f32((float32x4_t)bound, (float32x4_t)x);
#else
  return x > bound ? bound : x;
#endif
}

STROBE_INLINE F32 absolute(F32 x) { return as_float(as_bits(x) & 0x7fffffffu); }
STROBE_INLINE F32 copy_sign(F32 magnitude, F32 sign) {
  return as_float((as_bits(magnitude) & 0x7fffffffu) | (as_bits(sign) & 0x80000000u));
}

// a / b to a few units in the last place; b must be finite and nonzero. Avoids AVX-512 division, which takes 16 cycles
// per vector.
STROBE_INLINE F32 quotient(F32 a, F32 b) {
#if defined(__AVX512F__)
  const __m512 r = _mm512_rcp14_ps((__m512)b);
  return a * (F32)_mm512_fmadd_ps(r, _mm512_fnmadd_ps((__m512)b, r, _mm512_set1_ps(1)), r);
#else
  return a / b;
#endif
}

// Returns a * b + c, rounded once if FMA instructions exist (kFused), else twice.
#if defined(__AVX2__) || defined(__ARM_NEON)
inline constexpr bool kFused = true;
#else
inline constexpr bool kFused = false;
#endif
STROBE_INLINE F32 fma(F32 a, F32 b, F32 c) {
#if defined(__AVX512F__)
  return (F32)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
  return (F32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__ARM_NEON)
  return (F32)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + c;
#endif
}

#if defined(__AVX2__)
// sum += a * b in place. GCC may select an FMA form that overwrites a factor, which costs copies and spills.
STROBE_INLINE void multiply_add(F32& sum, F32 a, F32 b) { asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b)); }
#else
STROBE_INLINE void multiply_add(F32& sum, F32 a, F32 b) { sum = fma(a, b, sum); }
#endif

// sum += a * b in the type of `sum`, float64 or fp32. Takes a reference, because returning a vector as wide as F64 by
// value has no stable ABI.
STROBE_INLINE void add_product(F64& sum, F32 a, F32 b) {
  sum += __builtin_convertvector(a, F64) * __builtin_convertvector(b, F64);
}
STROBE_INLINE void add_product(F32& sum, F32 a, F32 b) { sum = fma(a, b, sum); }

// Returns true if any lane of a comparison's result is set.
STROBE_INLINE bool any(I32 mask) {
#if defined(__AVX512F__)
  return _mm512_movepi32_mask((__m512i)mask) != 0;
#elif defined(__AVX2__)
  return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#elif defined(__ARM_NEON)
  return vmaxvq_u32((uint32x4_t)mask) != 0;
#else
  std::int32_t set = 0;
  for (int i = 0; i < kLanes; ++i) set |= mask[i];
  return set != 0;
#endif
}

// A polynomial coefficient, replicated four times to fill a NEON vector.
struct Coefficient {
  constexpr Coefficient(float x) : lanes{x, x, x, x} {}
  alignas(16) float lanes[4];
};
inline constexpr Coefficient kExp2Degree5[] = {0x1.5bba14p-10f, 0x1.3cea88p-7f, 0x1.c6b752p-5f,
                                               0x1.ebf9bcp-3f,  0x1.62e42ap-1f, 1.0f};
inline constexpr Coefficient kExp2Degree6[] = {
    0x1.41fbbcp-13f, 0x1.5f3e52p-10f, 0x1.3b2d4cp-7f, 0x1.c6aee8p-5f, 0x1.ebfbdcp-3f, 0x1.62e430p-1f, 1.0f};
inline constexpr Coefficient kExp2Degree3[] = {0x1.c2a218p-5f, 0x1.f00c4ep-3f, 0x1.62f5fap-1f, 1.0f};

template <int Degree>
inline constexpr const Coefficient* kExp2 = Degree == 6   ? kExp2Degree6
                                            : Degree == 5 ? kExp2Degree5
                                                          : kExp2Degree3;

// a * b + c with c in memory. NEON's fmla overwrites its addend. Reloading c is cheaper than copying it from another
// register, which would occupy a compute pipe. The asm is volatile to keep the instruction order of exp2_rows.h.
STROBE_INLINE F32 fma_memory(F32 a, F32 b, const F32& c) {
#if defined(__ARM_NEON)
  F32 sum;
  asm volatile("ldr %q0, %3\n\tfmla %0.4s, %1.4s, %2.4s" : "=&w"(sum) : "w"(a), "w"(b), "m"(c));
  return sum;
#else
  return fma(a, b, c);
#endif
}
STROBE_INLINE F32 horner(F32 y, F32 f, const Coefficient& c) {
#if defined(__ARM_NEON)
  return fma_memory(y, f, reinterpret_cast<const F32&>(c));
#else
  return fma(y, f, broadcast(c.lanes[0]));
#endif
}

// 2^x for x <= ~127. Exactly 0 below -126.5; keeps NaN; exact at integers. Relative error: 8e-8 for degree 6, 1.6e-7
// for degree 5, 1e-4 for degree 3. rest(x, n) returns x - n for the nearest integer n. A caller that knows x to more
// than fp32 precision passes its own `rest`.
template <int Degree, class Rest>
STROBE_INLINE F32 exp2(F32 x, Rest rest) {
  x = max_keep_nan(broadcast(-127.0f), x);
  const F32 magic = broadcast(0x1.8p23f + 127);  // adding it leaves the nearest integer, plus 127, in the low bits
  const F32 shifted = x + magic;
  const F32 f = rest(x, shifted - magic);  // in [-0.5, 0.5]
  const U32 power = as_bits(shifted) << 23;
  constexpr const Coefficient* c = kExp2<Degree>;
  F32 y = broadcast(c[0].lanes[0]);
#pragma GCC unroll 6
  for (int i = 1; i <= Degree; ++i) y = horner(y, f, c[i]);
  return y * as_float(power);
}
template <int Degree>
STROBE_INLINE F32 exp2(F32 x) {
  return exp2<Degree>(x, [](F32 of, F32 floor) STROBE_INLINE_LAMBDA { return of - floor; });
}

// e^x for x <= 0 with a relative error of about 6e-8: ln 2 is split into two floats. For code that is not
// time-critical.
STROBE_INLINE F32 exp_accurate(F32 x) {
  x = max_keep_nan(broadcast(-88.0f), x);
  const F32 magic = broadcast(0x1.8p23f + 127);
  const F32 shifted = fma(x, broadcast(0x1.715476p0f), magic);
  const F32 n = shifted - magic;
  // f = x - n ln 2, with ln 2 split into two floats. The first has few bits, so its product with n is exact.
  const F32 f = fma(n, broadcast(0x1.05c610p-29f), fma(n, broadcast(-0x1.62e430p-1f), x));
  F32 y = broadcast(1.0f / 5040);
  y = fma(y, f, broadcast(1.0f / 720));
  y = fma(y, f, broadcast(1.0f / 120));
  y = fma(y, f, broadcast(1.0f / 24));
  y = fma(y, f, broadcast(1.0f / 6));
  y = fma(y, f, broadcast(0.5f));
  y = fma(y * f, f, f);
  const F32 power = as_float(as_bits(shifted) << 23);
  return fma(y, power, power);
}

// Returns the pairwise sum of `Count` vectors; Count must be a power of two.
template <int Count>
STROBE_INLINE F32 sum_all(const F32 (&x)[Count]) {
  if constexpr (Count == 1) {
    return x[0];
  } else {
    F32 half[Count / 2];
#pragma GCC unroll 8
    for (int i = 0; i < Count / 2; ++i) half[i] = x[2 * i] + x[2 * i + 1];
    return sum_all(half);
  }
}

// Computes the high and low 32 bits of a * b per lane.
STROBE_INLINE void multiply_wide(U32 a, std::uint32_t b, U32& high, U32& low) {
#if defined(__AVX512F__)
  const __m512i va = (__m512i)a, vb = _mm512_set1_epi32((int)b);
  const __m512i even = _mm512_mul_epu32(va, vb);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(va, 32), vb);
  high = (U32)_mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
  low = (U32)_mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
#elif defined(__AVX2__)
  const __m256i va = (__m256i)a, vb = _mm256_set1_epi32((int)b);
  const __m256i even = _mm256_mul_epu32(va, vb);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(va, 32), vb);
  high = (U32)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
  low = (U32)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
#elif defined(__ARM_NEON)
  const uint32x4_t va = (uint32x4_t)a, vb = vdupq_n_u32(b);
  const uint32x4_t first = vreinterpretq_u32_u64(vmull_u32(vget_low_u32(va), vget_low_u32(vb)));
  const uint32x4_t second = vreinterpretq_u32_u64(vmull_high_u32(va, vb));
  high = (U32)vuzp2q_u32(first, second);
  low = (U32)vuzp1q_u32(first, second);
#else
  for (int i = 0; i < kLanes; ++i) {
    const std::uint64_t product = std::uint64_t{a[i]} * b;
    high[i] = static_cast<std::uint32_t>(product >> 32);
    low[i] = static_cast<std::uint32_t>(product);
  }
#endif
}

// Multiplies the low 32 bits of each 64-bit element by b.
STROBE_INLINE U64 multiply_low_words(U64 a, std::uint32_t b) {
#if defined(__AVX512F__)
  return (U64)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64(b));
#elif defined(__AVX2__)
  return (U64)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(b));
#else
  return (a & 0xffffffffu) * std::uint64_t{b};
#endif
}

// Conversions from 16-bit formats are exact; conversions to them round to nearest even. All keep NaN.
STROBE_INLINE F32 from_bf16(U16 bits) {
#if defined(__ARM_NEON)
  return (F32)vshll_n_u16((uint16x4_t)bits, 16);
#else
  return as_float(__builtin_convertvector(bits, U32) << 16);
#endif
}

STROBE_INLINE U16 to_bf16(F32 x) {
#if defined(__AVX512BF16__)
  return (U16)_mm512_cvtneps_pbh((__m512)x);
#elif defined(__ARM_FEATURE_BF16)
  return (U16)vcvt_bf16_f32((float32x4_t)x);
#else
  const U32 bits = as_bits(x);
  const U32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const U32 quiet = (bits >> 16) | 0x40u;
  return __builtin_convertvector(x != x ? quiet : rounded, U16);
#endif
}

STROBE_INLINE F32 from_fp16(U16 half) {
#if defined(__AVX512F__)
  return (F32)_mm512_cvtph_ps((__m256i)half);
#elif defined(__AVX2__)
  return (F32)_mm256_cvtph_ps((__m128i)half);
#elif defined(__ARM_NEON)
  return (F32)vcvt_f32_f16((float16x4_t)half);
#else
  const U32 wide = __builtin_convertvector(half, U32);
  const U32 rest = wide & 0x7fffu;
  const F32 finite = as_float(rest << 13) * 0x1p112f;
  const U32 bits = rest >= 0x7c00u ? (0x7f800000u | (rest << 13)) : as_bits(finite);
  return as_float(bits | ((wide & 0x8000u) << 16));
#endif
}

STROBE_INLINE U16 to_fp16(F32 x) {
#if defined(__AVX512F__)
  return (U16)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT);
#elif defined(__AVX2__)
  return (U16)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT);
#elif defined(__ARM_NEON)
  return (U16)vcvt_f16_f32((float32x4_t)x);
#else
  const U32 bits = as_bits(x);
  const U32 sign = (bits >> 16) & 0x8000u;
  const U32 magnitude = bits & 0x7fffffffu;
  const U32 normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  const U32 subnormal = as_bits(as_float(magnitude) + 0.5f) - 0x3f000000u;
  U32 half = magnitude < 0x38800000u ? subnormal : normal;
  half = magnitude >= 0x477ff000u ? (U32{} + 0x7c00u) : half;
  half = magnitude > 0x7f800000u ? (U32{} + 0x7e00u) : half;
  return __builtin_convertvector(half | sign, U16);
#endif
}

}  // namespace
}  // namespace strobe::cpu
