// Sums over rows in two stages and a fixed order, for the kernels of this folder. Implemented in column_sums.cu.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/execution_context.h"

namespace strobe::ops::cuda {

// First stage: a kernel whose blocks loop over rows with a grid stride. Each block has its own partial sums in the
// workspace, and accumulates them in shared memory if they fit.
struct PartialSums {
  float* partial;            // [kinds, blocks, width]
  unsigned blocks;           // number of blocks to launch; 0 if there are no rows
  std::size_t shared_bytes;  // shared memory per block for the sums; 0 if they do not fit
};

// Plans the first stage with `wanted` blocks, or fewer if the workspace or the GPU limits them. Each block has `kinds`
// sums of `width` floats. `what` is a name for error messages, such as "RMSNorm".
PartialSums partial_sums(const ExecutionContext& execution, const char* what, std::int64_t wanted, std::int64_t width,
                         int kinds = 1);

// Second stage: sums partial [count, width] over its rows, and writes the result to sums [width] or adds it to them.
void add_partial_sums(const ExecutionContext& execution, const float* partial, int count, std::int64_t width,
                      float* sums, Into into);

}  // namespace strobe::ops::cuda
