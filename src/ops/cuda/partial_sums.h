// The second of the two stages in which kernels of this folder sum over rows, in one order. Its kernel is
// column_sums.cu's.
#pragma once

#include <cstdint>

#include "ops/place.h"

namespace strobe::ops::cuda {

// sums [width] = the sum of partial [count, width], fp32, over its rows, as `into` says.
void add_partial_sums(const Place& place, const float* partial, int count, std::int64_t width, float* sums, Into into);

}  // namespace strobe::ops::cuda
