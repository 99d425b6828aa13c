// Dropout in the Hopper backward, where scores are transposed. Called by kernel.cuh and pairs.cuh. Gradients are
// computed without the factor of kept probabilities, so delta is divided by it, and dQ, dK and dV are multiplied by it
// at the end.
#pragma once

#include <cstdint>
#include <type_traits>

#include "attention/cuda/device/dropout.cuh"
#include "attention/cuda/device/ptx.cuh"
#include "attention/cuda/device/tile.cuh"
#include "attention/cuda/sm90/backward/args.h"
#include "attention/cuda/sm90/device/wgmma.cuh"

namespace strobe::cuda::sm90 {

template <class Args>
inline constexpr bool kDrops = std::is_same_v<Args, DroppingBackwardArgs>;

// Factor of dV. That of dQ and dK is p.scale times this.
template <class Args>
__device__ __forceinline__ float dropout_scale_of(const Args& args) {
  if constexpr (kDrops<Args>) {
    return args.scale;
  } else {
    return 1;
  }
}

// Inverse of dropout_scale_of(), exact: the probability that dropout keeps a score.
template <class Args>
__device__ __forceinline__ float keep_rate_of(const Args& args) {
  if constexpr (kDrops<Args>) {
    return 1 - static_cast<float>(args.threshold >> 16) * 0x1p-16f;
  } else {
    return 1;
  }
}

// No dropout.
struct KeepsAll {
  template <class Args>
  __device__ __forceinline__ void draw(const Args&, int, int, int, int) {}
  template <int kCount>
  __device__ __forceinline__ void mark(float (&)[kCount]) const {}
  template <class T, int kCount>
  __device__ static __forceinline__ void round(std::uint32_t (&pairs)[kCount / 2],
                                               const float (&probabilities)[kCount]) {
    round_to_operand<T>(pairs, probabilities);
  }
  __device__ static __forceinline__ float gradient(float probability, float d, float delta) {
    return probability * (d - delta);
  }
};

// Kept scores of a thread, [64 keys][kRows rows] per warpgroup. The scores of a warp are 8x8 blocks: block n has keys
// 8 (n % 2) and rows 8 (n / 2) onwards. A thread has the two scores of each block that form accumulator pair n.
template <int kRows>
struct KeptScores {
  static constexpr int kBlocks = kRows / 4, kWords = (kBlocks + 15) / 16, kSquares = kBlocks / 4 / kWords;
  static_assert(kRows % 16 == 0);
  std::uint32_t bits[kWords];  // kept_blocks(), transposed: a half has one row of each block

  // row, key: first row and key of the warpgroup's scores, multiples of 16.
  template <class Args>
  __device__ __forceinline__ void draw(const Args& args, int b, int head, int row, int key) {
    const Philox philox(args.philox_keys, b, head);
    const int i = row + lane_index() / 4;
    const int j = key + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane_index() % 4 * 2;
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      bits[w] = transpose_matrix(
          kept_blocks<Along::rows, kSquares>(philox, KeepsPair(args.threshold), i + w * kSquares * 16, j));
    }
  }

  // Negates the probabilities of dropped scores. Probabilities are not negative, so the sign is free.
  template <int kCount>
  __device__ __forceinline__ void mark(float (&probabilities)[kCount]) const {
    static_assert(kCount == 2 * kBlocks);
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const std::uint32_t kept = kept_to_sign<kSquares>(bits[n / (4 * kSquares)], n % (4 * kSquares), e == 1);
        float& p = probabilities[2 * n + e];
        p = bits_to_float(float_to_bits(p) | (~kept & 0x80000000u));
      }
    }
  }

  // Rounds marked probabilities to the A operand of dV; dropped ones become 0.
  template <class T, int kCount>
  __device__ static __forceinline__ void round(std::uint32_t (&pairs)[kCount / 2],
                                               const float (&probabilities)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) pairs[i] = pack_positive<T>(probabilities[2 * i], probabilities[2 * i + 1]);
  }

  // Returns dS = P (dP - delta), with dP = 0 if the score was dropped. probability: marked.
  __device__ static __forceinline__ float gradient(float probability, float d, float delta) {
    return fmaf(fmaxf(probability, 0), d, -(fabsf(probability) * delta));
  }
};

template <class Args, int kRows>
using Dropout = std::conditional_t<kDrops<Args>, KeptScores<kRows>, KeepsAll>;

}  // namespace strobe::cuda::sm90
