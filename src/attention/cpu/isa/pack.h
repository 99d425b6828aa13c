// Packs the caller's rows into panels for any engine, with plain loops over the layout that isa.h defines. table.h uses
// these functions unless the engine defines faster functions of the same names.
#pragma once

#include "attention/cpu/isa.h"
#include "attention/cpu/isa/arithmetic.h"
#include "core/simd.h"

namespace strobe::cpu {
namespace {

// Conversions of one source element to one panel element.
struct FromFp32 {
  using Source = float;
  static float get(const float* from) { return *from; }
};
struct FromFp16 {
  using Source = std::uint16_t;
  static float get(const std::uint16_t* from) { return from_fp16(U16{} + *from)[0]; }
};
struct FromBf16 {
  using Source = std::uint16_t;
  static float get(const std::uint16_t* from) {
    const std::uint32_t bits = std::uint32_t{*from} << 16;
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
  }
};
struct Bf16Bits {
  using Source = std::uint16_t;
  static std::uint16_t get(const std::uint16_t* from) { return *from; }
};

inline bool not_finite(float value) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return (bits & 0x7f800000u) == 0x7f800000u;
}
inline bool not_finite(std::uint16_t bf16) { return (bf16 & 0x7f80u) == 0x7f80u; }

// Writes element (r, c) of the source to out[index(r, c)], and zeros for elements outside the source. Returns true if a
// value is not finite.
template <class Element, class From, class Index>
bool pack_elements(const Pack& a, int rows, int cols, Index index) {
  auto* out = static_cast<Element*>(a.out);
  bool odd = false;
  for (int r = 0; r < rows; ++r) {
    const auto* row = r < a.count ? static_cast<const typename From::Source*>(a.rows[r]) : nullptr;
    const int given = row ? a.cols : 0;
    for (int c = 0; c < given; ++c) {
      const Element value = From::get(row + c * a.col_stride);
      odd |= not_finite(value);
      out[index(r, c)] = value;
    }
    for (int c = given; c < cols; ++c) out[index(r, c)] = Element{};
  }
  return odd;
}

template <class Engine, class Index>
bool pack_from(const Pack& a, int rows, int cols, Index index) {
  using Element = typename Engine::Element;
  if constexpr (sizeof(Element) == 2) {
    return pack_elements<Element, Bf16Bits>(a, rows, cols, index);
  } else {
    if (a.dtype == DType::fp32) return pack_elements<Element, FromFp32>(a, rows, cols, index);
    if (a.dtype == DType::fp16) return pack_elements<Element, FromFp16>(a, rows, cols, index);
    return pack_elements<Element, FromBf16>(a, rows, cols, index);
  }
}

template <class Engine>
struct GenericPack {
  static constexpr int kM = Engine::kM, kN = Engine::kN, kCols = Engine::kCols, kK = Engine::kK, kP = Engine::kP;

  static bool pack_m(const Pack& a) {
    const int steps = round_up(a.cols, kK);
    return pack_from<Engine>(a, round_up(a.count, kM), steps, [=](int r, int t) {
      return (r / kM) * steps * kM + (t / kK) * kM * kK + (r % kM) * kK + t % kK;
    });
  }
  static bool pack_mt(const Pack& a) {
    const int steps = round_up(a.count, kK);
    return pack_from<Engine>(a, steps, round_up(a.cols, kM), [=](int t, int r) {
      return (r / kM) * steps * kM + (t / kK) * kM * kK + (r % kM) * kK + t % kK;
    });
  }
  static bool pack_n(const Pack& a) {
    return pack_from<Engine>(a, kN, round_up(a.cols, kK),
                             [](int c, int t) { return (t / kP) * kN * kP + c * kP + t % kP; });
  }
  static bool pack_nt(const Pack& a) {
    const int steps = round_up(a.count, kK);
    return pack_from<Engine>(a, steps, round_up(a.cols, kCols), [=](int t, int c) {
      return (c / kCols) * steps * kCols + (t / kP) * kCols * kP + (c % kCols) * kP + t % kP;
    });
  }
};

}  // namespace
}  // namespace strobe::cpu
