// Additive bias in the Hopper kernels: each warp loads the bias of its next scores with cp.async into a tile in shared
// memory of its own, while matmuls run, and adds it from there.
#pragma once

#include "attention/cuda/device/element.cuh"
#include "attention/cuda/device/options.cuh"
#include "attention/cuda/device/ptx.cuh"
#include "attention/cuda/device/sequence.cuh"
#include "attention/cuda/device/tile.cuh"
#include "attention/cuda/params.h"

namespace strobe::cuda::sm90 {

// Args with the field `bias` select the kernels with a bias.
template <class Args>
concept HasBias = requires(const Args& args) {
  args.bias;
};

// A warp's tile [kRows][kKeys], in 16-byte chunks that are swizzled so that ldmatrix has no bank conflicts.
template <int kRows, int kKeys>
struct WarpBias {
  static constexpr int kChunks = kKeys / 8;
  static constexpr std::uint32_t kBytes = kRows * kKeys * 2;
  static_assert(kKeys % 64 == 0 && kRows % 16 == 0);

  std::uint32_t tile;

  __device__ __forceinline__ std::uint32_t at(int row, int chunk) const {
    return tile + static_cast<std::uint32_t>((row * kChunks + (chunk ^ row % 8)) * 16);
  }

  // Issues the copies of the rows from `row` and the keys from `key`, and commits them. Positions outside the sequence
  // become 0. The lanes of the warp have finished add() of the previous scores.
  __device__ __forceinline__ void load(const Tensor& bias, int b, int head, int row, int key,
                                       const Sequence& sequence) const {
    const auto* const from = static_cast<const std::uint16_t*>(bias.data) + b * bias.batch + head * bias.head + key;
#pragma unroll 4
    for (int i = lane_index(); i < kRows * kChunks; i += 32) {
      const int r = i / kChunks, chunk = i % kChunks;
      const int keys = min(8, sequence.seqlen_k - key - chunk * 8);
      const bool valid = row + r >= 0 && row + r < sequence.seqlen_q && keys > 0;
      copy_async_16(at(r, chunk), valid ? static_cast<const void*>(from + (row + r) * bias.row + chunk * 8) : bias.data,
                    valid ? keys * 2 : 0);
    }
    copy_async_commit();
  }

  // Waits for this warp's copies.
  __device__ __forceinline__ void wait() const {
    copy_async_wait<0>();
    warp_sync();
  }

  // s = s * scale + bias for accumulators [16 rows][kKeys], as in device/wgmma.cuh.
  template <class T>
  __device__ __forceinline__ void add(float (&s)[kKeys / 2], float scale) const {
    const int lane = lane_index(), row = lane % 16;
#pragma unroll
    for (int n = 0; n < kChunks; n += 2) {
      std::uint32_t pairs[4];  // rows 0 to 7, rows 8 to 15, then the same with the other 8 keys
      load_matrices(pairs, at(row, n + lane / 16));
      add_four<T>(s + 4 * n, pairs, scale);
    }
  }

 private:
  template <class T>
  __device__ __forceinline__ static void add_four(float* s, const std::uint32_t (&pairs)[4], float scale) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      s[2 * i] = fmaf(s[2 * i], scale, low_half<T>(pairs[i]));
      s[2 * i + 1] = fmaf(s[2 * i + 1], scale, high_half<T>(pairs[i]));
    }
  }
};

}  // namespace strobe::cuda::sm90
