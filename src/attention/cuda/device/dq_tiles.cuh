// dQ tiles that several blocks accumulate into: index of a tile, order of the additions and layout of the fp32 sum.
// Used by the backward passes of sm80 and sm90.
#pragma once

#include "attention/cuda/device/ptx.cuh"
#include "attention/cuda/device/sequence.cuh"

namespace strobe::cuda {

// Index of a row tile of a query head among all row tiles. A packed batch has one extra tile per head and sequence, for
// sequences that begin within a tile.
template <class Args>
__device__ __forceinline__ std::int64_t row_tile_index(const Args& args, const Sequence& sequence, int b, int head,
                                                       int tile, int tile_rows) {
  const SequenceParams p = args.params;
  if (p.packed) return head * args.tiles_per_head + sequence.q_begin / tile_rows + b + tile;
  return (static_cast<std::int64_t>(b) * p.heads_q + head) * args.row_tiles + tile;
}

// Number of key tiles that add to the dQ of row_tile before key_tile does. Key tiles add in the order in which their
// blocks start.
template <int kRows, int kKeys, class AnySequence>
__device__ __forceinline__ std::uint32_t dq_add_index(const AnySequence& sequence, int row_tile, int key_tile) {
  if (sequence.right >= 0) {
    const int last_row = min((row_tile + 1) * kRows, sequence.seqlen_q) - 1;
    const int last = min(sequence.seqlen_k - 1, last_row + sequence.offset + sequence.right) / kKeys;
    return static_cast<std::uint32_t>(last - key_tile);
  }
  return static_cast<std::uint32_t>(key_tile - sequence.allowed(row_tile * kRows).lo / kKeys);
}

// Offset in the fp32 sum of a dQ tile: accumulator e of slot `slot` of this thread. A slot is a group of four
// accumulators. The sum has the order of the accumulators, so that a warp adds to whole cache lines: with vector
// reductions a thread's four accumulators are contiguous; otherwise the threads of a block are. The kernel that rounds
// dQ maps each entry to its row and column.
template <int kThreads>
__device__ __forceinline__ int sum_offset(int slot, int e, int thread) {
  return kReductionIsVector ? (slot * kThreads + thread) * 4 + e : (slot * 4 + e) * kThreads + thread;
}

// One address register serves all slots: the thread's offset is added first, and the slot's offset is an immediate.
template <int kThreads>
__device__ __forceinline__ void add_to_sum(float* sum, int slot, const float (&c)[4]) {
  float* const first = sum + sum_offset<kThreads>(0, 0, static_cast<int>(threadIdx.x));
  if constexpr (kReductionIsVector) {
    reduce_add(first + slot * kThreads * 4, c);
  } else {
#pragma unroll
    for (int e = 0; e < 4; ++e) reduce_add(first + (slot * 4 + e) * kThreads, c[e]);
  }
}

}  // namespace strobe::cuda
