// dQ of a row tile in the registers of the Hopper backward's consumers, and its fp32 sum in global memory. Both have
// the order [half][group of four accumulators][thread of a warpgroup][4]. Used by kernel.cuh and rows.cuh; pairs.cuh
// writes the same order.
#pragma once

#include "attention/cuda/device/ptx.cuh"
#include "attention/cuda/sm90/backward/config.h"
#include "attention/cuda/sm90/backward/work.cuh"

namespace strobe::cuda::sm90 {

// Half of a row tile's dQ: 64 of 128 rows, or half of the columns of 64 rows. Tall tiles: half of the columns,
// transposed, with accumulators [64 columns][kRows]. Share::keys: each consumer warpgroup computes one half.
// Share::tiles: a warpgroup computes both. Share::columns: each block of the cluster computes one half.
template <int kD, int kRows>
struct DqFragment {
  static constexpr int kThreads = kBackwardConsumers * 128;
  static constexpr bool kSplitsRows = kRows == 128, kTransposed = transposes_dq(kRows);
  static constexpr int kColumns = kSplitsRows ? kD : kD / 2, kCount = kRows * kD / 256;
  static_assert(!kTransposed || (kColumns == 64 && kRows % 16 == 0));

  __device__ static __forceinline__ int first_row(int fragment) { return kSplitsRows ? fragment * 64 : 0; }
  __device__ static __forceinline__ int first_column(int fragment) { return kSplitsRows ? 0 : fragment * kColumns; }

  // thread: index in the warpgroup.
  __device__ static __forceinline__ int offset(int fragment, int group, int thread) {
    return fragment * (kRows * kD / 2) + (group * 128 + thread) * 4;
  }

  __device__ static __forceinline__ void add(float* sum, const float (&dq)[kCount], int fragment, int thread) {
    float* const first = sum + offset(fragment, 0, thread);  // one address register with immediate offsets
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
      const float four[4] = {dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]};
      reduce_add(first + i * (128 * 4), four);
    }
  }
};

// Returns the fp32 dQ sum of a row tile. The tile must begin before the end of its sequence.
template <int kD, int kRows>
__device__ __forceinline__ float* dq_sum_of(const RowTilesArgs& args, const Sequence& sequence, const RowTile& place) {
  return args.dq_sum + row_tile_index(args, sequence, place.b, place.head, place.tile, kRows) * (kRows * kD);
}

}  // namespace strobe::cuda::sm90
