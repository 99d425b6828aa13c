// Probabilities and score gradients of the Hopper backward for fp32, and its dQ. Scores are transposed as in the 16-bit
// kernels: MMA accumulators [64 keys][kRows rows] of a warpgroup, so the statistics of a row apply to a column.
#pragma once

#include "attention/cuda/device/dq_tiles.cuh"
#include "attention/cuda/device/element.cuh"
#include "attention/cuda/device/ptx.cuh"
#include "attention/cuda/device/softmax.cuh"
#include "attention/cuda/device/tile.cuh"
#include "attention/cuda/sm90/backward/scores.cuh"
#include "attention/cuda/sm90/backward/work.cuh"
#include "attention/cuda/sm90/backward_fp32/launch.h"
#include "attention/cuda/sm90/device/barrier.cuh"
#include "attention/cuda/sm90/device/split_mma.cuh"

namespace strobe::cuda::sm90 {

__device__ __forceinline__ float load_scale(std::uint32_t address) { return bits_to_float(load_shared(address)); }

// Factor that undoes the scales of two operands in their matmul. It is clamped to a finite value, so that zeros stay
// zeros.
__device__ __forceinline__ float matmul_unit(float a, float b) { return fminf(a * b, 0x1.fffffep+127f); }

// Calls body(i, fact) for each of this thread's columns; a column holds the scores of one row of Q. i: index of the
// column's first accumulator. fact: address of the statistics (sm80::RowFacts) of this row. facts: address of the
// statistics of the tile's first row.
template <int kRows, class Body>
__device__ __forceinline__ void for_each_fact(std::uint32_t facts, Body&& body) {
  const std::uint32_t mine = facts + static_cast<std::uint32_t>(reread_thread_index() % 4 * 32);
#pragma unroll
  for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      body(4 * n + e, mine + static_cast<std::uint32_t>((n * 8 + e) * 16));
    }
  }
}

// Replaces MMA results by probabilities. Score = MMA result * factor.
template <int kRows>
__device__ __forceinline__ void weigh_exactly(float (&s)[kRows / 2], std::uint32_t facts, float factor) {
  for_each_fact<kRows>(facts, [&](int i, std::uint32_t at) {
    std::uint32_t words[4];
    load_shared(words, at);
    RowWeight row;
    row.base = bits_to_float(words[0]), row.rest = bits_to_float(words[1]), row.power = bits_to_float(words[2]);
    s[i] = row.of(multiply_rounded(s[i], factor));
    s[i + 2] = row.of(multiply_rounded(s[i + 2], factor));
  });
}

// Replaces the MMA results of V dO^T by score gradients. Gradient of a probability = MMA result * unit.
template <int kRows>
__device__ __forceinline__ void take_delta_exactly(float (&d)[kRows / 2], const float (&probabilities)[kRows / 2],
                                                   std::uint32_t facts, float unit) {
  for_each_fact<kRows>(facts, [&](int i, std::uint32_t at) {
    const float delta = bits_to_float(load_shared(at + 12));
    d[i] = probabilities[i] * fmaf(d[i], unit, -delta);
    d[i + 2] = probabilities[i + 2] * fmaf(d[i + 2], unit, -delta);
  });
}

// Returns the bits of the largest magnitude over a warp. The bits of non-negative floats, compared as integers, are
// ordered like the floats. Ignores NaN.
template <int kCount>
__device__ __forceinline__ std::uint32_t warp_largest(const float (&values)[kCount]) {
  float largest = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) largest = fmaxf(largest, fabsf(values[i]));
  return warp_max(float_to_bits(largest));
}

// c[64][kRows] = partial sum of K^T dS^T, which is dQ transposed. The sum is over 32 keys from key 32 * kGroup, for the
// 64 columns of K in slab kSlab. k: this warpgroup's 64 keys in a tile of kKeys. gradients: score gradients of these
// keys, as laid out in Fp32BackwardMemory::gradients().
template <int kRows, int kD, int kKeys, int kGroup, int kSlab>
__device__ __forceinline__ void start_dq(float (&c)[kRows / 2], std::uint32_t k, std::uint32_t gradients) {
  const Operand left(k), right(gradients);
  wgmma_begin();
#pragma unroll
  for (int i = 0; i < 3 * kChained; ++i) {
    const SplitMma term = split_mma<Fp32Scaled>(i / kChained);
    const int steps = (kGroup * kChained + i % kChained) * 2048;
    Wgmma<Fp16, kRows, RowsAre::steps>::run_transposed(
        c, left.plus(term.left * kSlabsBytes<kKeys, kD> + kSlab * kSlabBytes<kKeys> + steps),
        right.plus(term.right * kSlabsBytes<64, 64> + steps), i > 0);
  }
  wgmma_commit();
}

// dQ of a row tile in the registers of a warpgroup, transposed. Its sum in global memory has the order of the
// registers: [slab][group of four accumulators][thread of the warpgroup][4]. fp32_round_dq_kernel converts this sum to
// dQ.
template <int kD>
struct Fp32DqFragment {
  static constexpr int kRows = fp32_backward_shape(kD).rows, kThreads = 128;
  static constexpr int kSlabs = kD / 64, kCount = kRows / 2;  // accumulators per 64 columns of dQ

  __device__ static __forceinline__ int offset(int slab, int group, int thread) {
    return ((slab * (kCount / 4) + group) * kThreads + thread) * 4;
  }

  __device__ static __forceinline__ void add(float* sum, int slab, const float (&dq)[kCount], int thread) {
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
      const float four[4] = {dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]};
      reduce_add(sum + offset(slab, i, thread), four);
    }
  }
};

// Converts the dQ sums to dQ, one block per row tile of a query head. Rows past the sequence length get zeros.
template <int kD>
__global__ void __launch_bounds__(Fp32DqFragment<kD>::kThreads)
    fp32_round_dq_kernel(const __grid_constant__ Fp32RoundArgs args) {
  using Dq = Fp32DqFragment<kD>;
  if (*args.spread != 0) return;
  const SequenceParams& p = args.params;
  const RowTile place(args, blockIdx.x);
  const Sequence sequence(p, place.b);
  const int first_row = place.tile * Dq::kRows, thread = static_cast<int>(threadIdx.x);
  const int rows_written = sequence.rows_written(p) - first_row;
  if (rows_written <= 0) return;
  const float* sum =
      args.dq_sum + row_tile_index(args, sequence, place.b, place.head, place.tile, Dq::kRows) * (Dq::kRows * kD);
  float* to =
      static_cast<float*>(args.dq.data) + head_offset(args.dq, place.b, place.head, sequence.q_begin + first_row);
#pragma unroll
  for (int slab = 0; slab < Dq::kSlabs; ++slab) {
    const int column = slab * 64 + warp_index() * 16 + lane_index() / 4;  // and column + 8
#pragma unroll
    for (int group = 0; group < Dq::kCount / 4; ++group) {
      const float4 four = *reinterpret_cast<const float4*>(sum + Dq::offset(slab, group, thread));
      const float dq[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = group * 8 + lane_index() % 4 * 2 + e % 2, at = column + e / 2 * 8;
        if (row >= rows_written || at >= p.d) continue;
        to[row * args.dq.row + at] = first_row + row < sequence.seqlen_q ? dq[e] * p.scale : 0;
      }
    }
  }
}

}  // namespace strobe::cuda::sm90
