// Tiles from a tensor map to shared memory, in slabs of 64 columns, as wgmma.cuh reads them; others to the L2 cache.
#pragma once

#include "attention/cuda/sm90/device/barrier.cuh"
#include "attention/cuda/sm90/device/wgmma.cuh"

namespace strobe::cuda::sm90 {

// [kTileRows][kColumns] from `row` on, announced at `barrier`.
template <int kTileRows, int kColumns>
__device__ __forceinline__ void copy_tile(std::uint32_t to, const CUtensorMap& map, int row, int head, int batch,
                                          Barrier barrier) {
#pragma unroll
  for (int c = 0; c < kColumns; c += 64) {
    copy_box(to + c / 64 * kSlabBytes<kTileRows>, map, c, row, head, batch, barrier);
  }
  barrier.arrive_expecting(kSlabsBytes<kTileRows, kColumns>);
}

// `bytes`, a multiple of 16, to the L2 cache.
__device__ __forceinline__ void prefetch(const float* from, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

}  // namespace strobe::cuda::sm90
