// Loads tiles through a tensor map to shared memory, in slabs of 64 columns, the layout that wgmma.cuh reads. Called by
// the producers of the 16-bit kernels.
#pragma once

#include "attention/cuda/sm90/device/barrier.cuh"
#include "attention/cuda/sm90/device/wgmma.cuh"

namespace strobe::cuda::sm90 {

// Loads a tile [kTileRows][kColumns] whose first row is `row`, and arrives at `barrier` with the expected bytes.
template <int kTileRows, int kColumns>
__device__ __forceinline__ void copy_tile(std::uint32_t to, const CUtensorMap& map, int row, int head, int batch,
                                          Barrier barrier) {
#pragma unroll
  for (int c = 0; c < kColumns; c += 64) {
    copy_box(to + c / 64 * kSlabBytes<kTileRows>, map, c, row, head, batch, barrier);
  }
  barrier.arrive_expecting(kSlabsBytes<kTileRows, kColumns>);
}

}  // namespace strobe::cuda::sm90
