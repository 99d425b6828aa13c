// Clears rows past the sequence end in a tile loaded by TMA; called by the consumers of Hopper kernels.
#pragma once

#include <cstdint>

#include "attention/cuda/sm90/device/barrier.cuh"
#include "attention/cuda/sm90/device/wgmma.cuh"

namespace strobe::cuda::sm90 {

// Zeroes the rows [first, kRows) of a tile [kRows][kColumns]. These rows belong to another sequence or to the caller's
// padding. They may contain NaN, and 0 * NaN is NaN. Called by all threads of kConsumers warpgroups, which synchronize
// at the named barrier `barrier`.
template <int kRows, int kColumns, int kConsumers>
__device__ __forceinline__ void clear_rows_from(std::uint32_t tile, int first, int thread, int barrier = 8) {
  constexpr int kChunks = (kColumns + 63) / 64 * 8;  // 16-byte chunks per row
  for (int at = first * kChunks + thread; at < kRows * kChunks; at += kConsumers * 128) {
    const int row = at / kChunks, chunk = at % kChunks;
    const std::uint32_t to =
        tile + chunk / 8 * kSlabBytes<kRows> + static_cast<std::uint32_t>(row * 128 + chunk % 8 * 16);
    asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(0) : "memory");
  }
  publish_stores();
  barrier_sync(barrier, kConsumers * 128);
}

}  // namespace strobe::cuda::sm90
