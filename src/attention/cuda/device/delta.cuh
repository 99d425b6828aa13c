// delta = sum of dO * O over the columns of a row, for 16-bit types; gradient of LSE. Used by the backward passes of
// sm80 and sm90.
#pragma once

#include "attention/cuda/device/sequence.cuh"
#include "attention/cuda/device/tile.cuh"

namespace strobe::cuda {

// Two neighbouring elements of a row; zeros past its end.
__device__ __forceinline__ std::uint32_t load_2(const std::uint16_t* row, const Tensor& tensor, int column, int columns,
                                                bool valid) {
  const bool first = valid && column < columns, second = valid && column + 1 < columns;
  if (tensor.vectors) return first ? *reinterpret_cast<const std::uint32_t*>(row + column) : 0;
  const std::uint32_t low = first ? row[column * tensor.column] : 0;
  return second ? low | static_cast<std::uint32_t>(row[(column + 1) * tensor.column]) << 16 : low;
}

// Eight neighbouring elements of a row that allows 16-byte vectors; zeros past its end.
__device__ __forceinline__ void load_8(const std::uint16_t* from, bool valid, std::uint32_t (&to)[4]) {
  const uint4 words = valid ? *reinterpret_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
  to[0] = words.x, to[1] = words.y, to[2] = words.z, to[3] = words.w;
}

// Gradient of a row's LSE; 0 if the call has none. Subtracted from delta, which the row's score gradients subtract.
__device__ __forceinline__ float d_lse_at(const Tensor& d_lse, const Sequence& sequence, int b, int head, int i) {
  if (!d_lse.data) return 0;
  return static_cast<const float*>(d_lse.data)[head_offset(d_lse, b, head, sequence.q_begin + i)];
}

struct DeltaInputs {
  const Tensor &o, &d_o;
  int columns;
};

// One warp computes delta for the rows [first, first + 16) of a head as the diagonal of dO O^T. This gives delta the
// same rounding as dO V^T in the tiles. In a row with a single key O is V, so the score gradient is exactly 0. A lane
// that owns the rows r and r + 8 of the 16 returns r; the other lanes return -1. Past the sequence end delta is 0. Each
// iteration loads 32 * kAtOnce columns.
template <class T, int kAtOnce = 1>
__device__ __forceinline__ int delta_of_16(const DeltaInputs& in, const Sequence& sequence, int b, int head, int first,
                                           float (&delta)[2]) {
  const int row = lane_index() / 4;
  const std::uint16_t *o[2], *d_o[2];  // rows `row` and `row` + 8
  bool valid[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int i = first + row + 8 * h;
    valid[h] = i < sequence.seqlen_q;
    o[h] = static_cast<const std::uint16_t*>(in.o.data) + head_offset(in.o, b, head, sequence.q_begin + i);
    d_o[h] = static_cast<const std::uint16_t*>(in.d_o.data) + head_offset(in.d_o, b, head, sequence.q_begin + i);
  }
  float diagonal[2][4] = {};  // dO O^T: all 16 rows of dO with rows 8 h to 8 h + 7 of O
  // Each lane loads 8 adjacent columns, so a quad loads the operands of two MMAs; transpose_quad() exchanges them into
  // MMA order.
  const int vector_columns = in.o.vectors && in.d_o.vectors ? in.columns : 0;
#pragma unroll kAtOnce == 1 ? 2 : 1
  for (int k = 0; k < vector_columns; k += 32 * kAtOnce) {
    std::uint32_t left[kAtOnce][2][4], right[kAtOnce][2][4];
#pragma unroll
    for (int g = 0; g < kAtOnce; ++g) {
      const int column = k + g * 32 + lane_index() % 4 * 8;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        load_8(d_o[h] + column, valid[h] && column < in.columns, left[g][h]);
        load_8(o[h] + column, valid[h] && column < in.columns, right[g][h]);
      }
    }
#pragma unroll
    for (int g = 0; g < kAtOnce; ++g) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        transpose_quad(left[g][h]);
        transpose_quad(right[g][h]);
      }
#pragma unroll
      for (int c = 0; c < 4; c += 2) {
        const std::uint32_t a[4] = {left[g][0][c], left[g][1][c], left[g][0][c + 1], left[g][1][c + 1]};
#pragma unroll
        for (int h = 0; h < 2; ++h) mma<T>(diagonal[h], a, right[g][h][c], right[g][h][c + 1]);
      }
    }
  }
  for (int k = vector_columns; k < in.columns; k += 16) {
    const int column = k + lane_index() % 4 * 2;
    std::uint32_t left[4], right[2][2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        left[2 * c + h] = load_2(d_o[h], in.d_o, column + 8 * c, in.columns, valid[h]);
        right[h][c] = load_2(o[h], in.o, column + 8 * c, in.columns, valid[h]);
      }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) mma<T>(diagonal[h], left, right[h][0], right[h][1]);
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) delta[h] = row % 2 == 0 ? diagonal[h][2 * h] : diagonal[h][2 * h + 1];
  return lane_index() % 4 == row / 2 ? row : -1;
}

}  // namespace strobe::cuda
