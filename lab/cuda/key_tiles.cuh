// Host loop of the rungs from `shared` to `registers`: one launch per batch and tile of keys, as in the source report.
#pragma once

#include "lab/cuda/host.h"

namespace strobe::lab {

// A kernel for one tile of keys. Block i updates rows 32 i to 32 i + 31 of the batch with keys first_key to first_key +
// 31.
using KeyTileKernel = void (*)(Tensors batch, int first_key);

// Every launch has rows / 32 blocks of 32 x 32 threads with `shared_bytes` of dynamic shared memory. Launches on a
// stream run in order, so a launch finds the m, l and O (host.h) of the previous one in global memory.
inline Launches launch_per_key_tile(KeyTileKernel kernel, const Tensors& t, std::size_t shared_bytes,
                                    cudaStream_t stream = nullptr) {
  constexpr int kTile = 32;
  const dim3 grid(static_cast<unsigned>(t.rows / kTile)), block(kTile, kTile);
  Launches launches{.shared_bytes = shared_bytes};
  for (int b = 0; b < t.batch; ++b) {
    const Tensors batch = batch_of(t, b);
    for (int first_key = 0; first_key < t.rows; first_key += kTile) {
      kernel<<<grid, block, shared_bytes, stream>>>(batch, first_key);
      ++launches.count;
    }
  }
  STROBE_CUDA_CHECK(cudaGetLastError());
  return launches;
}

}  // namespace strobe::lab
