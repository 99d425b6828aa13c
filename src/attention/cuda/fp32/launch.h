// fp32 attention on CUDA cores, one warp per row, with every score option of flash2. These kernels need neither tensor
// cores nor shared memory. The sm80 plans use them on GPUs whose shared memory cannot hold the tiles of the tensor-core
// kernels.
#pragma once

#include <cstddef>

#include "attention/cuda/params.h"
#include "attention/kernel.h"

namespace strobe::cuda::fp32 {

// Shape of dbias; all 0 if the caller does not want it.
struct DbiasSizes {
  int batch = 0, heads = 0, rows = 0, keys = 0;
};

void launch_forward(const Params& params, void* stream);

// workspace: backward_bytes(rows) bytes; rows: number of LSE entries.
std::size_t backward_bytes(std::size_t rows);
void launch_backward(const BackwardParams& params, const DbiasSizes& dbias, void* workspace, void* stream);

// flash2's plan for fp32 problems whose tiles do not fit into the GPU's shared memory.
Plan plan(const Problem& problem);

}  // namespace strobe::cuda::fp32
