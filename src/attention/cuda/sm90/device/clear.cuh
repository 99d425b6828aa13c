// Zeros in rows of a tile that the copy engine brought.
#pragma once

#include <cstdint>

#include "attention/cuda/sm90/device/barrier.cuh"
#include "attention/cuda/sm90/device/wgmma.cuh"

namespace strobe::cuda::sm90 {

// Rows past a sequence's end are another sequence's or the caller's padding: they must not meet even a factor of 0. All
// consumers together, or those that meet at `barrier`.
template <int kRows, int kColumns, int kConsumers>
__device__ __forceinline__ void clear_rows_from(std::uint32_t tile, int first, int thread, int barrier = 8) {
  constexpr int kPieces = (kColumns + 63) / 64 * 8;  // of 16 bytes, to a row
  for (int at = first * kPieces + thread; at < kRows * kPieces; at += kConsumers * 128) {
    const int row = at / kPieces, piece = at % kPieces;
    const std::uint32_t to =
        tile + piece / 8 * kSlabBytes<kRows> + static_cast<std::uint32_t>(row * 128 + piece % 8 * 16);
    asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(0) : "memory");
  }
  publish_stores();
  barrier_sync(barrier, kConsumers * 128);
}

}  // namespace strobe::cuda::sm90
