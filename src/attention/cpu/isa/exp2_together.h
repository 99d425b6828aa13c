// Computes 2^x of several vectors on AVX-512, interleaved step by step. If they were computed one after the other,
// their chains of dependent operations would fill the scheduler. Included by engine_amx.h.
#pragma once

#include "core/simd.h"

namespace strobe::cpu {
namespace {

template <int Count, class Body>
STROBE_INLINE void for_each_of(Body&& body) {
#pragma GCC unroll 8
  for (int i = 0; i < Count; ++i) body(i);
}

// Computes 2^x in the same steps as exp2 in simd.h.
template <int Degree, int Count>
STROBE_INLINE void exp2_by_polynomial(F32 (&x)[Count]) {
  constexpr const Coefficient* c = kExp2<Degree>;
  const F32 magic = broadcast(0x1.8p23f + 127);
  F32 shifted[Count], y[Count];
  for_each_of<Count>([&](int i) STROBE_INLINE_LAMBDA { x[i] = max_keep_nan(broadcast(-127.0f), x[i]); });
  for_each_of<Count>([&](int i) STROBE_INLINE_LAMBDA { shifted[i] = x[i] + magic; });
  for_each_of<Count>([&](int i) STROBE_INLINE_LAMBDA { y[i] = shifted[i] - magic; });
  for_each_of<Count>([&](int i) STROBE_INLINE_LAMBDA { x[i] -= y[i]; });
  for_each_of<Count>([&](int i) STROBE_INLINE_LAMBDA { y[i] = horner(broadcast(c[0].lanes[0]), x[i], c[1]); });
#pragma GCC unroll 6
  for (int k = 2; k <= Degree; ++k) {
    for_each_of<Count>([&](int i) STROBE_INLINE_LAMBDA { y[i] = horner(y[i], x[i], c[k]); });
  }
  for_each_of<Count>([&](int i) STROBE_INLINE_LAMBDA { x[i] = y[i] * as_float(as_bits(shifted[i]) << 23); });
}

// 2^(j / 16)
inline constexpr float kSixteenths[16] = {
    0x1p0f,        0x1.0b5586p0f, 0x1.172b84p0f, 0x1.2387a6p0f, 0x1.306fep0f,  0x1.3dea64p0f,
    0x1.4bfdaep0f, 0x1.5ab07ep0f, 0x1.6a09e6p0f, 0x1.7a1148p0f, 0x1.8ace54p0f, 0x1.9c4918p0f,
    0x1.ae89fap0f, 0x1.c199bep0f, 0x1.d5818ep0f, 0x1.ea4afap0f,
};

// Computes 2^x * 2^Boost for x <= 0 with a table in a register; the relative error is 1.1e-7. The result is exactly 0
// for x < -126.5 and NaN for NaN. It takes 12 operations per vector, 6 of which need the one multiplier that AMX leaves
// free. exp2_by_polynomial takes 13 operations, 9 of which need it.
template <int Boost, int Count>
STROBE_INLINE void exp2_by_table(F32 (&x)[Count]) {
  struct Table {
    std::uint32_t entries[16];
  };
  // Bits of 2^(j / 16), minus j << 19. The exponent that is added later has j in these bits, so they cancel.
  alignas(64) static constexpr Table kTable = [] {
    Table table{};
    for (std::uint32_t j = 0; j < 16; ++j) {
      table.entries[j] = __builtin_bit_cast(std::uint32_t, kSixteenths[j]) - (j << 19) + (std::uint32_t{Boost} << 23);
    }
    return table;
  }();
  const __m512i table = _mm512_load_si512(&kTable);
  const F32 magic = broadcast(0x1.8p19f);  // adding it rounds x to sixteenths, whose number is then in the low bits
  F32 shifted[Count], y[Count];
  __m512i power[Count];
  __mmask16 seen[Count];
  for_each_of<Count>([&](int i) STROBE_INLINE_LAMBDA {
    seen[i] = _mm512_cmp_ps_mask((__m512)x[i], _mm512_set1_ps(-126.5f), _CMP_NLT_UQ);
  });
  for_each_of<Count>([&](int i) STROBE_INLINE_LAMBDA { shifted[i] = x[i] + magic; });
  for_each_of<Count>([&](int i) STROBE_INLINE_LAMBDA { y[i] = shifted[i] - magic; });
  for_each_of<Count>([&](int i) STROBE_INLINE_LAMBDA { x[i] -= y[i]; });  // in [-1/32, 1/32]
  for_each_of<Count>(
      [&](int i) STROBE_INLINE_LAMBDA { y[i] = fma(x[i], broadcast(0x1.c6b348p-5f), broadcast(0x1.ebff92p-3f)); });
  for_each_of<Count>([&](int i) STROBE_INLINE_LAMBDA {
    const __m512i bits = (__m512i)shifted[i];
    power[i] = _mm512_add_epi32(_mm512_slli_epi32(bits, 19), _mm512_permutexvar_epi32(bits, table));
  });
  for_each_of<Count>([&](int i) STROBE_INLINE_LAMBDA { y[i] = fma(y[i], x[i], broadcast(0x1.62e430p-1f)); });
  for_each_of<Count>([&](int i) STROBE_INLINE_LAMBDA { y[i] *= x[i]; });
  for_each_of<Count>([&](int i) STROBE_INLINE_LAMBDA {
    x[i] = (F32)_mm512_maskz_fmadd_ps(seen[i], (__m512)y[i], (__m512)power[i], (__m512)power[i]);
  });
}

}  // namespace
}  // namespace strobe::cpu
