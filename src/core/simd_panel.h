// Computes one panel of columns of a matmul (MatmulPanel). Packs kSteps rows of the right operand's panel at a time
// into a buffer. The buffer stays in L1 while all rows of the left operand use it. Reads the left operand in place and
// broadcasts each element to a vector. Only isa/*.cpp of ops/cpu/ and device/cpu/ include this header.
#pragma once

#include "core/matmul_panel.h"
#include "core/simd_memory.h"

namespace strobe::cpu {
namespace {

template <int M>  // rows per tile
class PanelMatmul {
 public:
  static constexpr int kVectors = 2, kColumns = kVectors * kLanes;

  static void matmul(const MatmulPanel& p) {
    if (p.cols == kColumns) return matmul_whole(p);
    // This panel is narrower than kColumns, because it is at the edge of the matrix. Computes full-width row blocks in
    // a temporary tile and copies the valid columns.
    constexpr std::int64_t kRows = 8 * M;
    alignas(64) float tile[kRows * kColumns];
    for (std::int64_t first = 0; first < p.rows; first += kRows) {
      MatmulPanel part = p;
      part.rows = p.rows - first < kRows ? p.rows - first : kRows;
      part.a += p.a_transposed ? first : first * p.a_stride;
      part.addend = nullptr;
      part.c = tile;
      part.c_stride = kColumns;
      matmul_whole(part);
      for (std::int64_t r = 0; r < part.rows; ++r) {
        const std::ptrdiff_t at = (first + r) * p.c_stride;
        for (std::int64_t i = 0; i < p.cols; ++i) {
          p.c[at + i] = tile[r * kColumns + i] + (p.addend ? p.addend[at + i] : 0);
        }
      }
    }
  }

 private:
  static constexpr int kSteps = 256;  // block size in k; with AVX-512 the packed block has 32 KB

  static constexpr int kAhead = 16;  // prefetch distance in k for a transposed left operand

  // Operands and results of a block of rows for one block of k.
  struct Rows {
    const float* a;
    std::ptrdiff_t a_stride;
    const float* b;  // packed, [steps][kColumns]
    int steps;
    const float* addend;
    float* c;
    std::ptrdiff_t c_stride;
  };

  static void matmul_whole(const MatmulPanel& p) {
    alignas(64) float packed[kSteps * kColumns];
    std::int64_t done = 0;
    do {
      const int steps = static_cast<int>(p.steps - done < kSteps ? p.steps - done : kSteps);
      pack(p, done, steps, packed);
      Rows rows{.a = p.a + (p.a_transposed ? done * p.a_stride : done),
                .a_stride = p.a_stride,
                .b = packed,
                .steps = steps,
                .addend = done == 0 ? p.addend : p.c,
                .c = p.c,
                .c_stride = p.c_stride};
      p.a_transposed ? all_rows<true>(rows, p.rows) : all_rows<false>(rows, p.rows);
      done += steps;
    } while (done < p.steps);
  }

  // Packs rows [first, first + steps) of the right operand, with zeros beyond the last column.
  static void pack(const MatmulPanel& p, std::int64_t first, int steps, float* out) {
    const auto cols = static_cast<int>(p.cols);
    if (!p.b_transposed) {
      for (int t = 0; t < steps; ++t) {
        const float* const from = p.b + (first + t) * p.b_stride;
        for (int c = 0; c < kColumns; c += kLanes) store(out + t * kColumns + c, some(from + c, cols - c));
      }
      return;
    }
    for (int t = 0; t < steps; t += kLanes) {
      for (int c = 0; c < kColumns; c += kLanes) {
        F32 v[kLanes];
        for (int i = 0; i < kLanes; ++i) {
          v[i] = c + i < cols ? some(p.b + (c + i) * p.b_stride + first + t, steps - t) : F32{};
        }
        transpose(v);
        for (int i = 0; i < kLanes && t + i < steps; ++i) store(out + (t + i) * kColumns + c, v[i]);
      }
    }
  }

  STROBE_INLINE static F32 some(const float* from, int count) {
    if (count >= kLanes) return load(from);
    return count <= 0 ? F32{} : load_some(from, DType::fp32, 0, count);
  }

  template <bool kTransposed>
  static void all_rows(Rows rows, std::int64_t count) {
    for (; count >= M; count -= M) {
      tile<M, kTransposed>(rows);
      rows.a += kTransposed ? M : M * rows.a_stride;
      rows.c += M * rows.c_stride;
      if (rows.addend) rows.addend += M * rows.c_stride;
    }
    last_rows<M - 1, kTransposed>(rows, static_cast<int>(count));
  }

  template <int R, bool kTransposed>
  static void last_rows(const Rows& rows, int count) {
    if constexpr (R > 0) count == R ? tile<R, kTransposed>(rows) : last_rows<R - 1, kTransposed>(rows, count);
  }

  // c = a b (+ addend) for R rows. The addend is added last. If the sums began with it, every step of a long sum would
  // be rounded to the magnitude of the total.
  template <int R, bool kTransposed>
  static void tile(const Rows& rows) {
    F32 sum[R][kVectors];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[r][v] = F32{};
    }
    // Row r starts r % 3 strides after base[r / 3], because one pointer per row would take too many registers.
    const float* base[(R + 2) / 3];
#pragma GCC unroll 16
    for (int i = 0; i < (R + 2) / 3; ++i) base[i] = rows.a + 3 * i * rows.a_stride;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) __builtin_prefetch(rows.c + r * rows.c_stride + v * kLanes, 1);
    }
    const float* column = rows.a;
    const float* b = rows.b;
    for (int t = 0; t < rows.steps; ++t, b += kColumns, column += rows.a_stride) {
      F32 right[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) right[v] = load(b + v * kLanes);
      if constexpr (kTransposed) __builtin_prefetch(column + kAhead * rows.a_stride + R - 1);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const F32 left = broadcast(kTransposed ? column[r] : base[r / 3][r % 3 * rows.a_stride + t]);
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) multiply_add(sum[r][v], left, right[v]);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const std::ptrdiff_t at = r * rows.c_stride + v * kLanes;
        store(rows.c + at, rows.addend ? load(rows.addend + at) + sum[r][v] : sum[r][v]);
      }
    }
  }
};

}  // namespace
}  // namespace strobe::cpu
