// fp32 on CUDA cores, one warp per row: no tensor cores, no shared memory, every feature. Fallback for GPUs on which
// the tiles of the tensor-core kernels do not fit, and an oracle for those kernels.
#pragma once

#include <cstddef>

#include "attention/cuda/params.h"
#include "attention/kernel.h"

namespace strobe::cuda::fp32 {

// Sizes of dbias; all 0 if it is not wanted.
struct DbiasSizes {
  int batch = 0, heads = 0, rows = 0, keys = 0;
};

void launch_forward(const Params& params, void* stream);

// workspace: backward_bytes(rows) bytes; rows are counted as in LSE.
std::size_t backward_bytes(std::size_t rows);
void launch_backward(const BackwardParams& params, const DbiasSizes& dbias, void* workspace, void* stream);

// flash2's plan for fp32 problems whose tiles do not fit the GPU.
Plan plan(const Problem& problem);

}  // namespace strobe::cuda::fp32
