// Bias tile of one warp in shared memory, loaded with cp.async while the preceding matmuls run. Used by the sm80
// kernels with score options. Only the owning warp writes and reads it.
#pragma once

#include "attention/cuda/device/options.cuh"

namespace strobe::cuda {

// [kRows][kKeys] elements of T in the layout of Tile<kKeys>, so that ldmatrix loads for each lane the elements to add
// to its accumulators.
template <class T, int kRows, int kKeys>
struct BiasTile {
  using Shape = Tile<kKeys>;
  static constexpr int kLanes = kKeys / 8;  // lanes per row, 16 bytes each
  static constexpr int kRowStep = kWarpLanes / kLanes;
  static constexpr int kBytes = kRows * kKeys * 2;
  static_assert(kKeys % 32 == 0 && kKeys <= 64 && kRows % 16 == 0);

  std::uint32_t tile;

  // Issues cp.async for the rows from `row` and the keys from `key`; positions past the sequence end become 0. The
  // caller commits and waits as for any copy_async_16(), and calls warp_sync() between the last add() and this call.
  __device__ __forceinline__ void load(const BiasRows& bias, int row, int key, const Sequence& sequence) const {
    const int chunk = lane_index() % kLanes;
    const int first = lane_index() / kLanes;
    const int keys = min(8, sequence.seqlen_k - key - chunk * 8);
    const auto* from = reinterpret_cast<const std::uint16_t*>(bias.data) + (row + first) * bias.row + key + chunk * 8;
#pragma unroll
    for (int i = 0; i < kRows; i += kRowStep) {
      const bool valid = row + first + i < sequence.seqlen_q && keys > 0;
      copy_async_16(tile + Shape::offset(first + i, chunk),
                    valid ? static_cast<const void*>(from + i * bias.row) : bias.data, valid ? keys * 2 : 0);
    }
  }

  template <int kMt, int kNt>
  __device__ __forceinline__ void add(float (&s)[kMt][kNt][4]) const {
    static_assert(kMt * 16 == kRows && kNt * 8 == kKeys);
    const LeftOf<T, kRows, kKeys, Stored::plain> squares(tile, 0, 0);
#pragma unroll
    for (int m = 0; m < kMt; ++m) {
#pragma unroll
      for (int n = 0; n < kNt; n += 2) {
        std::uint32_t pairs[4];  // keys 0 and 1 of rows 0 and 8, then keys 8 and 9 of both
        squares.load(pairs, m, n / 2, 0);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          s[m][n + i / 2][i % 2 * 2] += low_half<T>(pairs[i]);
          s[m][n + i / 2][i % 2 * 2 + 1] += high_half<T>(pairs[i]);
        }
      }
    }
  }
};

}  // namespace strobe::cuda
