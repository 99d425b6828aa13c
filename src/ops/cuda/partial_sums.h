// The two stages in which kernels of this folder sum over rows, in one order. What they share is in column_sums.cu.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/place.h"

namespace strobe::ops::cuda {

// How blocks that take rows in turns keep sums of their own: each in its part of the workspace, and meanwhile in shared
// memory where they fit.
struct PartialSums {
  float* partial;
  unsigned blocks;           // 0: none are wanted
  std::size_t shared_bytes;  // 0: they do not fit
};

// wanted: blocks, of which there are as many as the workspace and the GPU have room for. kinds: sums of `width` floats
// that a block keeps. what: for people, "RMSNorm".
PartialSums partial_sums(const Place& place, const char* what, std::int64_t wanted, std::int64_t width, int kinds = 1);

// sums [width] = the sum of partial [count, width], fp32, over its rows, as `into` says.
void add_partial_sums(const Place& place, const float* partial, int count, std::int64_t width, float* sums, Into into);

}  // namespace strobe::ops::cuda
