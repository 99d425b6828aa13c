// Packing for the bf16 panels of BFMMLA, in chunks of four steps. If steps are columns of the source, 8 bytes at a time
// are copied. If steps are rows, 4 x 8 blocks are transposed. The results equal those of pack.h. NeonBf16Engine
// inherits NeonBf16Pack. isa.h defines panels, chunks and steps.
#pragma once

#include "attention/cpu/isa.h"
#include "attention/cpu/isa/arithmetic.h"
#include "core/simd.h"

namespace strobe::cpu {
namespace {

// Reads the caller's rows as vectors of eight columns. Records the bits of the largest magnitude, to detect values that
// are not finite.
struct NeonBf16Reader {
  const Pack& pack;
  uint16x8_t largest[2] = {vdupq_n_u16(0), vdupq_n_u16(0)};

  STROBE_INLINE bool whole_rows(int first, int count) const {
    bool whole = pack.col_stride == 1 && first + count <= pack.count;
    for (int r = first; whole && r < first + count; ++r) whole = pack.rows[r] != nullptr;
    return whole;
  }
  STROBE_INLINE uint16x8_t seen(int r, uint16x8_t x) {
    largest[r & 1] = vmaxq_u16(largest[r & 1], vbicq_u16(x, vdupq_n_u16(0x8000)));
    return x;
  }
  // Returns columns [col, col + 8) of row r, which must exist.
  STROBE_INLINE uint16x8_t whole(int r, int col) {
    return seen(r, vld1q_u16(static_cast<const std::uint16_t*>(pack.rows[r]) + col));
  }
  // Returns columns [col, col + 8) of row r, with zeros for elements outside the source.
  uint16x8_t padded(int r, int col) {
    std::uint16_t copy[8] = {};
    const int count = pack.cols - col < 8 ? pack.cols - col : 8;
    if (r < pack.count && pack.rows[r]) {
      const auto* row = static_cast<const std::uint16_t*>(pack.rows[r]);
      for (int i = 0; i < count; ++i) copy[i] = row[(col + i) * pack.col_stride];
    }
    return seen(r, vld1q_u16(copy));
  }
  bool met_non_finite() const { return vmaxvq_u16(vmaxq_u16(largest[0], largest[1])) >= 0x7f80; }
};

struct NeonBf16Pack {
  static bool pack_m(const Pack& a) {
    NeonBf16Reader in{a};
    const std::ptrdiff_t steps = round_up(a.cols, 4);
    for (int r = 0; r < a.count; r += 8) copy_rows<8>(in, r, static_cast<std::uint16_t*>(a.out) + r * steps);
    return in.met_non_finite();
  }
  static bool pack_n(const Pack& a) {
    NeonBf16Reader in{a};
    copy_rows<12>(in, 0, static_cast<std::uint16_t*>(a.out));
    return in.met_non_finite();
  }
  static bool pack_mt(const Pack& a) {
    NeonBf16Reader in{a};
    interleave_rows(in, a);
    return in.met_non_finite();
  }
  static bool pack_nt(const Pack& a) { return pack_mt(a); }  // both are panels of 8 columns

 private:
  // Packs rows [first, first + Rows) into chunks [Rows][4], two chunks at a time.
  template <int Rows>
  static void copy_rows(NeonBf16Reader& in, int first, std::uint16_t* out) {
    const int cols = in.pack.cols;
    int c = 0;
    if (in.whole_rows(first, Rows)) {
      for (; c + 8 <= cols; c += 8, out += 8 * Rows) {
        for (int r = 0; r < Rows; r += 2) put_pair<Rows>(in.whole(first + r, c), in.whole(first + r + 1, c), out, r);
      }
    }
    for (; c < cols; c += 8, out += 8 * Rows) {
      for (int r = 0; r < Rows; r += 2) {
        const uint16x8_t x = in.padded(first + r, c), y = in.padded(first + r + 1, c);
        if (c + 4 < cols) {
          put_pair<Rows>(x, y, out, r);
        } else {
          vst1q_u16(out + r * 4, low_halves(x, y));
        }
      }
    }
  }
  template <int Rows>
  STROBE_INLINE static void put_pair(uint16x8_t x, uint16x8_t y, std::uint16_t* out, int r) {
    vst1q_u16(out + r * 4, low_halves(x, y));
    vst1q_u16(out + (Rows + r) * 4,
              vreinterpretq_u16_u64(vzip2q_u64(vreinterpretq_u64_u16(x), vreinterpretq_u64_u16(y))));
  }
  STROBE_INLINE static uint16x8_t low_halves(uint16x8_t x, uint16x8_t y) {
    return vreinterpretq_u16_u64(vzip1q_u64(vreinterpretq_u64_u16(x), vreinterpretq_u64_u16(y)));
  }

  // Packs panels of eight columns, in chunks [8][4] that hold four rows each. Eight rows at a time are packed, so each
  // panel receives two whole cache lines.
  static void interleave_rows(NeonBf16Reader& in, const Pack& a) {
    const int steps = round_up(a.count, 4);
    for (int first = 0; first < steps; first += 8) {
      const int last = first + 8 < steps ? first + 8 : steps;
      const bool whole = in.whole_rows(first, last - first);
      for (int c = 0; c < a.cols; c += 8) {
        std::uint16_t* out = static_cast<std::uint16_t*>(a.out) + static_cast<std::ptrdiff_t>(c) * steps;
        for (int t = first; t < last; t += 4) {
          if (whole && c + 8 <= a.cols) {
            put_four(in.whole(t, c), in.whole(t + 1, c), in.whole(t + 2, c), in.whole(t + 3, c), out + t * 8);
          } else {
            put_four(in.padded(t, c), in.padded(t + 1, c), in.padded(t + 2, c), in.padded(t + 3, c), out + t * 8);
          }
        }
      }
    }
  }
  STROBE_INLINE static void put_four(uint16x8_t a, uint16x8_t b, uint16x8_t c, uint16x8_t d, std::uint16_t* out) {
    const uint16x8_t even_low = vzip1q_u16(a, c), odd_low = vzip1q_u16(b, d);
    const uint16x8_t even_high = vzip2q_u16(a, c), odd_high = vzip2q_u16(b, d);
    vst1q_u16(out, vzip1q_u16(even_low, odd_low));
    vst1q_u16(out + 8, vzip2q_u16(even_low, odd_low));
    vst1q_u16(out + 16, vzip1q_u16(even_high, odd_high));
    vst1q_u16(out + 24, vzip2q_u16(even_high, odd_high));
  }
};

}  // namespace
}  // namespace strobe::cpu
