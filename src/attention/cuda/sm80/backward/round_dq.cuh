// dQ from its fp32 sum: scaled, rounded, brought from the order of registers to the caller's rows.
#pragma once

#include "attention/cuda/device/copy.cuh"
#include "attention/cuda/device/dq_sum.cuh"
#include "attention/cuda/sm80/backward/kernel.cuh"

namespace strobe::cuda::sm80 {

// A block a tile of rows, its threads as in backward_kernel.
template <class T, int kD, BackwardKind kKind>
__global__ void __launch_bounds__(kBackwardShape<T, kD, kKind>.warps * 32)
    round_dq_kernel(const __grid_constant__ BackwardArgs args) {
  constexpr BackwardShape kShape = kBackwardShape<T, kD, kKind>;
  constexpr int kThreads = kShape.warps * kWarpLanes;
  constexpr int kDqRows = kShape.rows / kShape.dq_warps, kDqD = kD * kShape.dq_warps / kShape.warps;
  const BackwardParams& p = args.params;
  if (is_left_to_others<T>(args)) return;
  const auto [tile, head, b] = row_tile_of_block(args);
  const Sequence sequence(p, b);
  const int first_row = tile * kShape.rows;
  const int rows_written = sequence.rows_written(p) - first_row;
  if (rows_written <= 0) return;

  const float* sum = args.dq_sum + row_tile_index(args, sequence, b, head, tile, kShape.rows) * (kShape.rows * kD);
  const int row = warp_index() % kShape.dq_warps * kDqRows, column = warp_index() / kShape.dq_warps * kDqD;
  float dq[kDqRows / 16][kDqD / 8][4];
#pragma unroll
  for (int m = 0; m < kDqRows / 16; ++m) {
#pragma unroll
    for (int n = 0; n < kDqD / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const bool valid = first_row + row + m * 16 + e / 2 * 8 + lane_index() / 4 < sequence.q_length;
        const int at = sum_offset<kThreads>(m * (kDqD / 8) + n, e, static_cast<int>(threadIdx.x));
        dq[m][n][e] = valid ? sum[at] * p.scale : 0;
      }
    }
  }
  const Rows<T> to = rows_at<T>(p.dq, head_offset(p.dq, b, head, sequence.q_begin + first_row), p.d);
  const auto row_offset = [&](int r) { return r * p.dq.row; };
  if constexpr (!kIsFp32<T>) {
    const std::uint32_t s_dq = shared_base();  // [rows][kD]
    store_accumulators<T, kShape.rows, kD>(s_dq, row, column, dq);
    block_sync();
    store_tile<T, kShape.rows, kD, kThreads, kKind == BackwardKind::general>(to, s_dq, static_cast<int>(threadIdx.x),
                                                                             rows_written, row_offset);
  } else {
    store_rows(to, dq, row, column, rows_written, row_offset);
  }
}

}  // namespace strobe::cuda::sm80
