// Packing for NEON's fp32 panels, in 4 x 4 blocks. Blocks are converted to fp32 on load and transposed in registers if
// the layout requires it. The results equal those of pack.h. The engines of engine_neon.h inherit NeonPack. isa.h
// defines panels, chunks and steps.
#pragma once

#include "attention/cpu/isa.h"
#include "attention/cpu/isa/store.h"
#include "core/simd.h"

namespace strobe::cpu {
namespace {

// Reads the caller's rows as vectors of four columns. Records if a value is not finite.
template <DType Source>
struct NeonReader {
  const Pack& pack;
  F32 probe[2] = {};  // sums of x * 0, NaN if an x is not finite

  STROBE_INLINE bool whole_rows(int first, int count) const {
    bool whole = pack.col_stride == 1 && first + count <= pack.count;
    for (int r = first; whole && r < first + count; ++r) whole = pack.rows[r] != nullptr;
    return whole;
  }
  // Returns columns [col, col + 4) of a row, which must exist. `seen` is the caller's own probe, passed to note() at
  // the end. It stays in a register. The member `probe` would not, because stores to a panel may alias it.
  STROBE_INLINE static F32 whole(const void* row, int col, F32& seen) {
    const F32 x = load_as(row, Source, col);
    seen = fma(x, F32{}, seen);
    return x;
  }
  STROBE_INLINE void note(F32 seen) { probe[0] += seen; }
  // Returns columns [col, col + 4) of row r, with zeros for elements outside the source.
  F32 padded(int r, int col) {
    const int count = pack.cols - col < 4 ? pack.cols - col : 4;
    if (r >= pack.count || count <= 0 || !pack.rows[r]) return F32{};
    F32 x = load_some(pack.rows[r], Source, pack.col_stride * col, pack.col_stride == 0 ? 1 : count);
    if (pack.col_stride == 0) {
      for (int i = 1; i < count; ++i) x[i] = x[0];
    }
    probe[r & 1] = fma(x, F32{}, probe[r & 1]);
    return x;
  }
  bool met_non_finite() const { return any((probe[0] != probe[0]) | (probe[1] != probe[1])); }
};

// Packing functions for N panels of N query lanes.
template <int N>
struct NeonPack {
  static bool pack_m(const Pack& a) {
    return by_source(a, [](auto& in, const Pack& a) {
      auto* out = static_cast<float*>(a.out);
      for (int r = 0; r < a.count; r += 8) transpose_rows<8>(in, r, out + static_cast<std::ptrdiff_t>(r) * a.cols);
    });
  }
  static bool pack_n(const Pack& a) {
    return by_source(a, [](auto& in, const Pack& a) { transpose_rows<N>(in, 0, static_cast<float*>(a.out)); });
  }
  static bool pack_mt(const Pack& a) {
    return by_source(a, [](auto& in, const Pack& a) { copy_columns(in, a); });
  }
  static bool pack_nt(const Pack& a) { return pack_mt(a); }  // both are panels of 8 columns

 private:
  template <class Body>
  static bool by_source(const Pack& a, Body body) {
    if (a.dtype == DType::fp32) return run(NeonReader<DType::fp32>{a}, body);
    if (a.dtype == DType::fp16) return run(NeonReader<DType::fp16>{a}, body);
    return run(NeonReader<DType::bf16>{a}, body);
  }
  template <class Reader, class Body>
  static bool run(Reader in, Body body) {
    body(in, in.pack);
    return in.met_non_finite();
  }

  // Packs rows [first, first + Rows) into a panel [cols][Rows].
  template <int Rows, class Reader>
  static void transpose_rows(Reader& in, int first, float* out) {
    const int cols = in.pack.cols;
    int c = 0;
    if (in.whole_rows(first, Rows)) {
      const int whole_cols = cols / 4 * 4;
      F32 seen[4] = {};
      for (int r = 0; r < Rows; r += 4) {
        const void* row[4];
        for (int i = 0; i < 4; ++i) row[i] = in.pack.rows[first + r + i];
        for (c = 0; c < whole_cols; c += 4) {
          F32 v[4];
          for (int i = 0; i < 4; ++i) v[i] = Reader::whole(row[i], c, seen[i]);
          transpose(v);
          for (int i = 0; i < 4; ++i) store(out + (c + i) * Rows + r, v[i]);
        }
      }
      in.note(sum_all(seen));
    }
    for (; c < cols; c += 4) {
      for (int r = 0; r < Rows; r += 4) {
        F32 v[4];
        for (int i = 0; i < 4; ++i) v[i] = in.padded(first + r + i, c);
        transpose(v);
        for (int i = 0; i < 4 && c + i < cols; ++i) store(out + (c + i) * Rows + r, v[i]);
      }
    }
  }

  // Packs panels [count][8] of eight columns each. Eight rows at a time are packed, so each panel receives whole cache
  // lines.
  template <class Reader>
  static void copy_columns(Reader& in, const Pack& a) {
    F32 seen[2] = {};
    for (int first = 0; first < a.count; first += 8) {
      const int rows = a.count - first < 8 ? a.count - first : 8;
      const bool whole = in.whole_rows(first, rows);
      for (int c = 0; c < a.cols; c += 8) {
        float* out = static_cast<float*>(a.out) + static_cast<std::ptrdiff_t>(c) * a.count + first * 8;
        if (whole && c + 8 <= a.cols) {
          for (int r = 0; r < rows; ++r) {
            const void* const row = a.rows[first + r];
            store(out + r * 8, Reader::whole(row, c, seen[0]));
            store(out + r * 8 + 4, Reader::whole(row, c + 4, seen[1]));
          }
        } else {
          for (int r = 0; r < rows; ++r) {
            store(out + r * 8, in.padded(first + r, c));
            store(out + r * 8 + 4, in.padded(first + r, c + 4));
          }
        }
      }
    }
    in.note(sum_all(seen));
  }
};

}  // namespace
}  // namespace strobe::cpu
