// Before the Hopper backward for fp32: tiles of Q, dO, K and V into two fp16 parts of every element, as products read
// them from shared memory. A tile has one scale. Where its elements differ too much in size for that, or scores are
// large, a word is set and the main kernel leaves the problem to flash2's with three parts. Inputs are read once, which
// that look needs anyway.
#pragma once

#include <climits>

#include "attention/cuda/device/element.cuh"
#include "attention/cuda/device/sequence.cuh"
#include "attention/cuda/device/softmax.cuh"
#include "attention/cuda/device/tile.cuh"
#include "attention/cuda/sm90/backward/work.cuh"
#include "attention/cuda/sm90/backward_fp32/args.h"
#include "attention/cuda/sm90/backward_fp32/memory.cuh"

namespace strobe::cuda::sm90 {

inline constexpr int kSplitThreads = 256;
inline constexpr int kMostPowers = kept_powers(Parts::scaled);  // of two, that a tile's sizes may be apart

// Index of a tile of keys of a KV head among all, as row_tile_index().
__device__ __forceinline__ std::int64_t key_tile_index(const Fp32BackwardArgs& args, const Sequence& sequence, int b,
                                                       int head, int tile) {
  const SequenceParams& p = args.params;
  if (p.packed) return head * args.parts.key_tiles_per_head + sequence.k_begin / kFp32BackwardKeys + b + tile;
  return (static_cast<std::int64_t>(b) * p.heads_kv + head) * args.key_tiles + tile;
}

// Tiles of rows from those of a query head to those of the next.
__device__ __forceinline__ int tiles_of_head(const RowTilesArgs& args) {
  return args.params.packed ? static_cast<int>(args.tiles_per_head) : args.row_tiles;
}

// The rows [first, first + kRows) of one head of a tensor.
struct RowsToSplit {
  const Tensor& tensor;
  std::int64_t head_at;  // offset of row 0
  int first, columns;
  Keys used;  // the others become zeros
};

template <int kD, int kRows>
class TileSplitter {
  static constexpr int kLanes = kD / 8, kStep = kSplitThreads / kLanes, kCount = kRows / kStep;
  static_assert(kCount * kStep == kRows && kStep % 8 == 0);
  const int lane_ = static_cast<int>(threadIdx.x) % kLanes, row_ = static_cast<int>(threadIdx.x) / kLanes;
  float held_[kCount][8];

 public:
  __device__ __forceinline__ void load(const RowsToSplit& from) {
    const auto* const data = static_cast<const float*>(from.tensor.data) + from.head_at;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int row = from.first + row_ + i * kStep;
      const bool used = row >= from.used.lo && row < from.used.hi;
#pragma unroll
      for (int half = 0; half < 8; half += 4) {
        float4 four = make_float4(0, 0, 0, 0);
        const int column = lane_ * 8 + half;
        if (used && column < from.columns) {
          four = *reinterpret_cast<const float4*>(data + row * from.tensor.row + column);
        }
        held_[i][half] = four.x, held_[i][half + 1] = four.y, held_[i][half + 2] = four.z, held_[i][half + 3] = four.w;
      }
    }
  }

  // By all threads of the block. sizes: a word for each warp, not used again. Whether this thread has 8 neighbours, not
  // all zeros, that are too small beside the tile's largest element: parts would lose bits of them.
  __device__ __forceinline__ bool split(unsigned char* to, float* scale, std::uint32_t sizes) const {
    LargestFinite largest;
    int smallest = INT_MAX;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      LargestFinite of_eight;
#pragma unroll
      for (int e = 0; e < 8; ++e) of_eight.take(held_[i][e]);
      largest.bits = max(largest.bits, of_eight.bits);
      if (of_eight.bits > LargestFinite().bits) smallest = min(smallest, of_eight.bits);
    }
    largest.bits = warp_max(largest.bits);
    if (lane_index() == 0) {
      store_shared(sizes + static_cast<std::uint32_t>(warp_index() * 4), static_cast<std::uint32_t>(largest.bits));
    }
    block_sync();
#pragma unroll
    for (int warp = 0; warp < kSplitThreads / kWarpLanes; ++warp) {
      largest.bits = max(largest.bits, static_cast<int>(load_shared(sizes + static_cast<std::uint32_t>(warp * 4))));
    }
    const RowScale by(largest);
    if (threadIdx.x == 0) *scale = by.down;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      std::uint32_t parts[2][4];
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        std::uint32_t both[2];
        to_planes<Fp32Scaled>(both, held_[i][2 * w] * by.up, held_[i][2 * w + 1] * by.up);
        parts[0][w] = both[0], parts[1][w] = both[1];
      }
      unsigned char* const at =
          to + lane_ / 8 * kSlabBytes<kRows> + (row_ + i * kStep) * 128 + ((lane_ ^ row_) & 7) * 16;
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        *reinterpret_cast<uint4*>(at + part * kSlabsBytes<kRows, kD>) =
            make_uint4(parts[part][0], parts[part][1], parts[part][2], parts[part][3]);
      }
    }
    return largest.bits - smallest > kMostPowers << 23;
  }
};

// The same tile of two tensors: Q and dO, or K and V.
template <int kD, int kRows>
__device__ __forceinline__ void split_two(const RowsToSplit& a, const RowsToSplit& b, unsigned char* to_a,
                                          unsigned char* to_b, float* scales, std::uint32_t* spread) {
  TileSplitter<kD, kRows> splitter;
  splitter.load(a);
  const bool a_spread = splitter.split(to_a, scales, shared_base());
  splitter.load(b);
  const bool b_spread = splitter.split(to_b, scales + 1, shared_base() + kSplitThreads / kWarpLanes * 4);
  if (a_spread || b_spread) *spread = 1;  // whoever writes, writes this
}

// A block a tile of rows of a query head or, behind all of these, of keys of a KV head.
template <int kD>
__global__ void __launch_bounds__(kSplitThreads) fp32_split_kernel(const __grid_constant__ Fp32SplitArgs args) {
  using Memory = Fp32BackwardMemory<kD>;
  constexpr int kRows = Memory::kRows, kKeys = Memory::kKeys;
  constexpr std::int64_t kRowBytes = Memory::kRowBytes, kKeyBytes = Memory::kKeyBytes;
  const SequenceParams& p = args.params;
  const auto of_rows = static_cast<unsigned>(p.batch * p.heads_q) * static_cast<unsigned>(args.row_tiles);
  const bool is_rows = blockIdx.x < of_rows;
  const unsigned index = is_rows ? blockIdx.x : blockIdx.x - of_rows;
  const auto tiles = static_cast<unsigned>(is_rows ? args.row_tiles : args.key_tiles);
  const auto heads = static_cast<unsigned>(is_rows ? p.heads_q : p.heads_kv);
  const int tile = static_cast<int>(index % tiles), head = static_cast<int>(index / tiles % heads),
            b = static_cast<int>(index / tiles / heads);
  const Sequence sequence(p, b);
  if (sequence.q_length == 0 || sequence.k_length == 0) return;
  const auto rows_of = [&](const Tensor& tensor, int first, int columns, Keys used) {
    const std::int64_t begin = is_rows ? sequence.q_begin : sequence.k_begin;
    return RowsToSplit{tensor, head_offset(tensor, b, head, begin), first, columns, used};
  };
  const Fp32PartTiles& to = args.parts;
  if (is_rows) {
    const int first = tile * kRows;
    if (first >= sequence.q_length) return;
    if (const int row = first + static_cast<int>(threadIdx.x); threadIdx.x < kRows && row < sequence.q_length) {
      if (is_large_lse(args.lse[lse_index(p, sequence, b, head, row)])) *to.spread = 1;
    }
    const std::int64_t at = row_tile_index(args, sequence, b, head, tile, kRows);
    const Keys used = sequence.rows_of(0, sequence.k_length - 1);
    split_two<kD, kRows>(rows_of(args.q, first, p.d, used), rows_of(args.d_o, first, p.dv_dim, used),
                         to.q + at * kRowBytes, to.d_o + at * kRowBytes, to.row_scales + 2 * at, to.spread);
  } else {
    const int first = tile * kKeys;
    if (first >= sequence.k_length) return;
    const std::int64_t at = key_tile_index(args, sequence, b, head, tile);
    const Keys used = sequence.some(0, sequence.q_length - 1);
    split_two<kD, kKeys>(rows_of(args.k, first, p.d, used), rows_of(args.v, first, p.dv_dim, used),
                         to.k + at * kKeyBytes, to.v + at * kKeyBytes, to.key_scales + 2 * at, to.spread);
  }
}

}  // namespace strobe::cuda::sm90
