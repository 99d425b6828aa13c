// What a tile of rows is made of.
#pragma once

#include "attention/cuda/device/sequence.cuh"
#include "attention/cuda/sm90/device/tile_order.h"

namespace strobe::cuda::sm90 {

// A tile's sequence, rows and tiles of keys [begin, end). Where warpgroups pass tiles of keys, tiles end with the rows:
// the one that is not full is then the first, whose rows have the fewest keys under a causal mask. It begins with rows
// below 0, which are not there.
template <int kRows, int kKeys, bool kPasses>
struct ForwardWork {
  Sequence sequence;
  int rows_written, first_row, begin = 0, end = 0;

  __device__ __forceinline__ ForwardWork(const Params& p, const TilePlace& place)
      : sequence(p, place.b), rows_written(sequence.rows_written(p)), first_row(place.tile * kRows) {
    if constexpr (kPasses) first_row -= (kRows - rows_written % kRows) % kRows;
    if (max(0, first_row) >= sequence.q_length) return;
    const Keys some = sequence.some(max(0, first_row), min(first_row + kRows, sequence.q_length) - 1);
    if (some.lo >= some.hi) return;
    begin = some.lo / kKeys;
    end = (some.hi + kKeys - 1) / kKeys;
  }
};

}  // namespace strobe::cuda::sm90
