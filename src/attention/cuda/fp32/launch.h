// fp32 on the CUDA cores, a warp a row: no tensor cores, no shared memory, every feature. The fallback where the tiles
// of the tensor-core kernels do not fit a card, and an oracle for them.
#pragma once

#include <cstddef>

#include "attention/cuda/params.h"
#include "attention/kernel.h"

namespace strobe::cuda::fp32 {

// Sizes of dbias; all 0 where it is not wanted.
struct DbiasSizes {
  int batch = 0, heads = 0, rows = 0, keys = 0;
};

void launch_forward(const Params& params, void* stream);

// workspace: backward_bytes(rows), rows as LSE counts them.
std::size_t backward_bytes(std::size_t rows);
void launch_backward(const BackwardParams& params, const DbiasSizes& dbias, void* workspace, void* stream);

// flash2's plan for fp32 problems whose tiles do not fit the card.
Plan plan(const Problem& problem);

}  // namespace strobe::cuda::fp32
