// Work of one row tile of the Hopper forward; producer and consumers compute it from the WorkTile.
#pragma once

#include "attention/cuda/device/sequence.cuh"
#include "attention/cuda/sm90/device/tile_scheduler.h"

namespace strobe::cuda::sm90 {

// Sequence and rows of a row tile, and the key tiles [begin, end) that it or its split visits. With kPasses the last
// row tile ends at rows_written, rounded up to a multiple of 16 because dropout draws random words for squares of 16 x
// 16 scores. The first tile is then the partial one; under a causal mask its rows see the fewest keys. It may start at
// a negative row; rows below 0 do not exist.
template <int kRows, int kKeys, bool kPasses, bool kSplits>
struct ForwardWork {
  Sequence sequence;
  Keys used{0, 0};
  int rows_written, first_row, begin = 0, end = 0;

  template <class Args>
  __device__ __forceinline__ ForwardWork(const Args& args, const WorkTile& work_tile)
      : sequence(args.params, work_tile.b), rows_written(sequence.rows_written(args.params)) {
    first_row = (kSplits ? work_tile.tile / args.splits.count : work_tile.tile) * kRows;
    if constexpr (kPasses) first_row -= (kRows - (rows_written + 15) / 16 * 16 % kRows) % kRows;
    if (max(0, first_row) >= sequence.seqlen_q) return;
    used = sequence.some(max(0, first_row), min(first_row + kRows, sequence.seqlen_q) - 1);
    if (used.lo >= used.hi) return;
    begin = used.lo / kKeys;
    end = (used.hi + kKeys - 1) / kKeys;
    if (kSplits && args.splits.count > 1) {
      const int share = (end - begin + args.splits.count - 1) / args.splits.count;
      begin = min(end, begin + work_tile.tile % args.splits.count * share);
      end = min(end, begin + share);
    }
  }
};

}  // namespace strobe::cuda::sm90
