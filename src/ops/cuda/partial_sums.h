// Two-stage sums over rows in a fixed order, for the kernels of this folder. The implementation is in column_sums.cu.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/place.h"

namespace strobe::ops::cuda {

// Partial sums of blocks that loop over rows with a grid stride: each block has a part of the workspace, and
// accumulates in shared memory if the sums fit.
struct PartialSums {
  float* partial;
  unsigned blocks;           // 0: none are wanted
  std::size_t shared_bytes;  // 0: they do not fit
};

// wanted: number of blocks, limited by the workspace and the GPU. kinds: sums of `width` floats per block. The text
// `what` is a readable name, for example "RMSNorm".
PartialSums partial_sums(const Place& place, const char* what, std::int64_t wanted, std::int64_t width, int kinds = 1);

// sums [width] = the sum of partial [count, width], fp32, over its rows; `into` selects overwriting or adding.
void add_partial_sums(const Place& place, const float* partial, int count, std::int64_t width, float* sums, Into into);

}  // namespace strobe::ops::cuda
