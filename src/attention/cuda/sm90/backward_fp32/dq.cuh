// dQ of a tile of rows as a warpgroup of the Hopper backward for fp32 holds it, transposed, and its sum in global
// memory in that order: [group of four accumulators][thread of the warpgroup][4]. Last of all, dQ from that sum.
#pragma once

#include "attention/cuda/device/dq_tiles.cuh"
#include "attention/cuda/device/ptx.cuh"
#include "attention/cuda/device/tile.cuh"
#include "attention/cuda/sm90/backward/work.cuh"
#include "attention/cuda/sm90/backward_fp32/args.h"
#include "attention/cuda/sm90/backward_fp32/config.h"

namespace strobe::cuda::sm90 {

template <int kD>
struct Fp32DqPiece {
  static constexpr int kRows = fp32_backward_shape(kD).rows, kThreads = 128;
  static constexpr int kSlabs = kD / 64, kCount = kRows / 2;  // accumulators of 64 columns of dQ

  __device__ static __forceinline__ int offset(int slab, int group, int thread) {
    return ((slab * (kCount / 4) + group) * kThreads + thread) * 4;
  }

  __device__ static __forceinline__ void add(float* sum, int slab, const float (&dq)[kCount], int thread) {
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
      const float four[4] = {dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]};
      reduce_add(sum + offset(slab, i, thread), four);
    }
  }
};

// A block a tile of rows of one query head. Rows past the length get zeros.
template <int kD>
__global__ void __launch_bounds__(Fp32DqPiece<kD>::kThreads)
    fp32_round_dq_kernel(const __grid_constant__ Fp32RoundArgs args) {
  using Dq = Fp32DqPiece<kD>;
  if (*args.spread != 0) return;
  const SequenceParams& p = args.params;
  const RowTile place(args, blockIdx.x);
  const Sequence sequence(p, place.b);
  const int first_row = place.tile * Dq::kRows, thread = static_cast<int>(threadIdx.x);
  const int rows_written = sequence.rows_written(p) - first_row;
  if (rows_written <= 0) return;
  const float* sum =
      args.dq_sum + row_tile_index(args, sequence, place.b, place.head, place.tile, Dq::kRows) * (Dq::kRows * kD);
  float* to =
      static_cast<float*>(args.dq.data) + head_offset(args.dq, place.b, place.head, sequence.q_begin + first_row);
#pragma unroll
  for (int slab = 0; slab < Dq::kSlabs; ++slab) {
    const int column = slab * 64 + warp_index() * 16 + lane_index() / 4;  // and 8 on
#pragma unroll
    for (int group = 0; group < Dq::kCount / 4; ++group) {
      const float4 four = *reinterpret_cast<const float4*>(sum + Dq::offset(slab, group, thread));
      const float dq[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = group * 8 + lane_index() % 4 * 2 + e % 2, at = column + e / 2 * 8;
        if (row >= rows_written || at >= p.d) continue;
        to[row * args.dq.row + at] = first_row + row < sequence.q_length ? dq[e] * p.scale : 0;
      }
    }
  }
}

}  // namespace strobe::cuda::sm90
