// Hopper forward for few query rows (decode). A unit is one KV head of one sequence. Its rows are query heads per KV
// head times query rows, at most 16. An item is a unit or, if the keys are split, a range of its key tiles.
// A persistent block walks its items. One producer warp loads key tiles by TMA, several stages ahead and across items,
// because the kernel is memory-bound. The eight consumer warps form teams of 4 (D up to 64) or 2 (D up to 128), which
// take tiles in turn. Each warp computes 32 keys of its team's tile with mma.sync. Consumer warps wait for each other
// only at the end of an item, when they merge their outputs in shared memory.
#pragma once

#include <algorithm>

#include "attention/cuda/device/sequence.cuh"
#include "attention/cuda/device/softmax.cuh"
#include "attention/cuda/launch_kernel.cuh"
#include "attention/cuda/sm90/decode/launch.h"
#include "attention/cuda/sm90/device/load.cuh"

namespace strobe::cuda::sm90 {

template <int kD>
inline constexpr int kDecodeKeys = decode_keys(kD);
template <int kD>
inline constexpr int kDecodeTileWarps = decode_tile_warps(kD);
template <int kD>
inline constexpr int kDecodeTeams = decode_teams(kD);

template <int kD>
struct DecodeMemory {
  static constexpr int kKeys = kDecodeKeys<kD>;
  static constexpr std::uint32_t kTileBytes = kSlabsBytes<kKeys, kD>;  // of K or of V
  static constexpr int kMergeColumns = decode_merge_columns(kD);

  std::uint32_t base = shared_base();

  __device__ __forceinline__ std::uint32_t k(int stage) const {
    return base + static_cast<std::uint32_t>(stage) * 2 * kTileBytes;
  }
  __device__ __forceinline__ std::uint32_t v(int stage) const { return k(stage) + kTileBytes; }
  // Outputs of 8 rows of a warp: [warp][8][kMergeColumns] in fp32.
  __device__ __forceinline__ std::uint32_t merge(int warp, int row, int column) const {
    return k(kDecodeStages) + static_cast<std::uint32_t>(((warp * 8 + row) * kMergeColumns + column) * 4);
  }
  // Maximum and sum of a warp's row: [warp][kDecodeRows][2] in fp32.
  __device__ __forceinline__ std::uint32_t statistics(int warp, int row) const {
    return merge(kDecodeWarps, 0, 0) + static_cast<std::uint32_t>((warp * kDecodeRows + row) * 8);
  }
  __device__ __forceinline__ Barrier full(int index) const {
    return {statistics(kDecodeWarps, 0) + static_cast<std::uint32_t>(index * 8)};
  }
  __device__ __forceinline__ Barrier empty(int stage) const { return full(kDecodeFullBarriers + stage); }
};

// An item: its sequence, rows and key tiles.
template <int kKeys>
struct DecodeItem {
  int b, head_kv, split;
  PaddedSequence sequence;
  int rows;        // rows of the unit, at most kDecodeRows
  Keys some, all;  // keys that at least one row may use, and that all rows may use
  int begin, end;  // key tiles

  __device__ __forceinline__ DecodeItem(const DecodeArgs& args, int item)
      : b(item / args.splits.count / args.params.heads_kv),
        head_kv(item / args.splits.count % args.params.heads_kv),
        split(item % args.splits.count),
        sequence(args.params, b),
        rows(sequence.seqlen_q * args.params.group) {
    begin = end = 0;
    some = all = {0, 0};
    if (rows == 0) return;
    some = sequence.some(0, sequence.seqlen_q - 1);
    all = sequence.all(0, sequence.seqlen_q - 1);
    if (some.lo >= some.hi) return;
    begin = some.lo / kKeys;
    end = (some.hi + kKeys - 1) / kKeys;
    const int share = (end - begin + args.splits.count - 1) / args.splits.count;
    begin = min(end, begin + split * share);
    end = min(end, begin + share);
  }
};

// Position of tile `count` of this block in the pipeline.
// A stage has two full barriers, which its tiles use in turn. A team waits only for its own tiles, and TMA loads land
// in any order. With one barrier per stage, a team could wait for a tile while the stage's previous tile, of another
// team, is still being loaded. The wait would return early, because it compares only the parity of the phase. With two,
// the previous phase of the barrier belongs to tile count - kDecodeFullBarriers. The team has waited for its tile
// count - kTeams, which the producer issued after that older tile was consumed. So the previous phase is complete.
struct DecodeStage {
  int full, stage;
  std::uint32_t full_parity, empty_parity;

  __device__ __forceinline__ explicit DecodeStage(std::uint32_t count)
      : full(static_cast<int>(count % kDecodeFullBarriers)),
        stage(full % kDecodeStages),
        full_parity(count / kDecodeFullBarriers & 1),
        empty_parity(full < kDecodeStages) {}
};

// Prefetches the rows of Q to L1. The producer runs several stages ahead of the consumers, which load them.
template <int kKeys>
__device__ __forceinline__ void prefetch_q(const DecodeParams& p, const DecodeItem<kKeys>& item) {
  const auto* const q = static_cast<const std::uint16_t*>(p.q.data) +
                        head_offset(p.q, item.b, item.head_kv * p.group, item.sequence.q_begin);
#pragma unroll 1
  for (int row = 0; row < item.rows; ++row) {
    const std::uint16_t* const start = q + row / p.group * p.q.row + row % p.group * p.q.head;
    for (int column = 0; column < p.d; column += 64) prefetch_line(start + column);
  }
}

template <int kD>
__device__ __forceinline__ void load_items(const DecodeArgs& args, const DecodeMemory<kD>& memory) {
  constexpr int kKeys = kDecodeKeys<kD>;
  prefetch_map(args.k);
  prefetch_map(args.v);
  const std::uint64_t once = evict_first_policy();
  std::uint32_t count = 0;
  for (int index = static_cast<int>(blockIdx.x); index < args.items; index += static_cast<int>(gridDim.x)) {
    const DecodeItem<kKeys> item(args, index);
    const int batch = args.params.packed ? 0 : item.b;
    if (count > 0) prefetch_q(args.params, item);  // the first item's Q is already being loaded
    for (int tile = item.begin; tile < item.end; ++tile, ++count) {
      const DecodeStage at(count);
      memory.empty(at.stage).wait(at.empty_parity);
      const Barrier full = memory.full(at.full);
      const int row = static_cast<int>(item.sequence.k_begin) + tile * kKeys;
      full.arrive_expecting(2 * DecodeMemory<kD>::kTileBytes);
#pragma unroll
      for (int c = 0; c < kD; c += 64) {
        copy_box(memory.k(at.stage) + c / 64 * kSlabBytes<kKeys>, args.k, c, row, item.head_kv, batch, full, once);
      }
#pragma unroll
      for (int c = 0; c < kD; c += 64) {
        copy_box(memory.v(at.stage) + c / 64 * kSlabBytes<kKeys>, args.v, c, row, item.head_kv, batch, full, once);
      }
    }
  }
}

// The right operand of an MMA: a tile of kKeys rows in slabs of 64 columns. Both tiles are [key][column]. B is
// [n][k], so ldmatrix transposes V but not K.
template <int kKeys, Stored kStored>
struct SlabOperand {
  static constexpr Walk kWalk = kStored == Stored::plain ? Walk::across : Walk::down;
  LaneTile<64, kWalk, true> slab;

  __device__ __forceinline__ SlabOperand(std::uint32_t tile, int first_key) : slab(tile, first_key, 0) {}
  __device__ __forceinline__ void load(std::uint32_t (&r)[4], int n, int k, int) const {
    const int key = kStored == Stored::plain ? n : k, column = kStored == Stored::plain ? k : n;
    load_square<kStored>(r, slab.at(key, column % 4) + static_cast<std::uint32_t>(column / 4) * kSlabBytes<kKeys>);
  }
};

// The state of a consumer warp for one item.
template <class T, int kD>
struct DecodeWarp {
  static constexpr int kKeys = kDecodeKeys<kD>;
  using Item = DecodeItem<kKeys>;

  const DecodeArgs& args;
  LeftRegisters<T, 1, kD / 16> q;
  float o[1][kD / 8][4];
  OnlineSoftmax<1> softmax;

  __device__ __forceinline__ DecodeWarp(const DecodeArgs& args, const Item& item) : args(args) {
    clear(o);
    load_q(item);
  }

  // Loads this lane's elements of Q: rows lane / 4 and lane / 4 + 8. Rows and columns outside Q become 0.
  __device__ __forceinline__ void load_q(const Item& item) {
    const DecodeParams& p = args.params;
    const auto* const from = static_cast<const std::uint16_t*>(p.q.data) +
                             head_offset(p.q, item.b, item.head_kv * p.group, item.sequence.q_begin);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = lane_index() / 4 + 8 * h;
      const std::uint16_t* const start = from + row / p.group * p.q.row + row % p.group * p.q.head;
#pragma unroll
      for (int e = 0; e < kD / 8; ++e) {
        const int column = e * 8 + lane_index() % 4 * 2;
        const bool valid = row < item.rows && column < p.d;
        q.squares[0][e / 2][e % 2 * 2 + h][0] =
            valid ? __ldg(reinterpret_cast<const unsigned int*>(start + column)) : 0u;
      }
    }
  }

  // Adds 32 keys of a tile. first: index of the first key; at: its row in the tile.
  __device__ __forceinline__ void add(const Item& item, std::uint32_t k, std::uint32_t v, int first, int at) {
    if (first >= item.some.hi || first + kDecodeWarpKeys <= item.some.lo) return;
    float s[1][kDecodeWarpKeys / 8][4];
    mma_tiles<T, kD>(s, q, SlabOperand<kKeys, Stored::plain>(k, at), From::zero);
    if (first < item.all.lo || first + kDecodeWarpKeys > item.all.hi) mask(s, item, first);
    if (first < item.some.lo || first + kDecodeWarpKeys > item.some.hi) clear_values(item, v, first, at);
    softmax.template weigh<false>(s, o, OneFactor{args.factor});
    LeftRegisters<T, 1, kDecodeWarpKeys / 16> probabilities;
    round_to_left<T>(probabilities, s);
    mma_tiles<T, kDecodeWarpKeys>(o, probabilities, SlabOperand<kKeys, Stored::transposed>(v, at), From::sum);
  }

  __device__ __forceinline__ void mask(float (&s)[1][kDecodeWarpKeys / 8][4], const Item& item, int first) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const Keys keys = item.sequence.allowed((lane_index() / 4 + 8 * h) / args.params.group);
#pragma unroll
      for (int n = 0; n < kDecodeWarpKeys / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int j = first + n * 8 + lane_index() % 4 * 2 + e;
          if (j < keys.lo || j >= keys.hi) s[0][n][2 * h + e] = kMinusInfinity;
        }
      }
    }
  }

  // Clears rows of V that no row of Q uses. They may contain NaN, and 0 * NaN is NaN.
  __device__ __forceinline__ void clear_values(const Item& item, std::uint32_t v, int first, int at) const {
    const int key = first + lane_index();
    if (key < item.some.lo || key >= item.some.hi) {
      const std::uint32_t zeros[4] = {0, 0, 0, 0};
#pragma unroll
      for (int chunk = 0; chunk < kD / 8; ++chunk) {
        store_shared(
            v + chunk / 8 * kSlabBytes<kKeys> + static_cast<std::uint32_t>((at + lane_index()) * 128 + chunk % 8 * 16),
            zeros);
      }
    }
    publish_stores();  // orders these stores before the next TMA load of this stage
    warp_sync();
  }
};

inline constexpr int kDecodeConsumers = kDecodeWarps * kWarpLanes;

__device__ __forceinline__ void consumers_sync() { barrier_sync(1, kDecodeConsumers); }

// Merges the outputs of the warps and stores O and LSE, or the partial results of a split. All sums over warps are in
// one order.
template <class T, int kD>
__device__ __forceinline__ void finish_item(const DecodeArgs& args, const DecodeMemory<kD>& memory,
                                            const DecodeItem<kDecodeKeys<kD>>& item, DecodeWarp<T, kD>& warp) {
  const DecodeParams& p = args.params;
  const int rows_written = item.sequence.rows_written(p) * p.group;
  const int lane_row = lane_index() / 4;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float sum = quad_sum(warp.softmax.sum[0][h]);
    if (lane_index() % 4 == 0) {
      store_shared_pair(memory.statistics(warp_index(), lane_row + 8 * h), warp.softmax.maximum[0][h], sum);
    }
  }
  consumers_sync();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (8 * h >= rows_written) break;
    {
      float highest = kMinusInfinity;
#pragma unroll
      for (int w = 0; w < kDecodeWarps; ++w) {
        highest = fmaxf(highest, load_shared_pair(memory.statistics(w, lane_row + 8 * h)).x);
      }
      const float base = highest == kMinusInfinity ? 0 : highest;
      const float weight = exp2_fast((warp.softmax.maximum[0][h] - base) * args.factor);
#pragma unroll
      for (int n = 0; n < kD / 8; ++n) {
        store_shared_pair(memory.merge(warp_index(), lane_row, n * 8 + lane_index() % 4 * 2),
                          warp.o[0][n][2 * h] * weight, warp.o[0][n][2 * h + 1] * weight);
      }
    }
    consumers_sync();
    constexpr int kRowThreads = kD / 4;  // four columns per thread
    const int thread = static_cast<int>(threadIdx.x);
    const int row = thread / kRowThreads + 8 * h, column = thread % kRowThreads * 4;
    if (thread < 8 * kRowThreads && row < rows_written) {
      float2 statistics[kDecodeWarps];
      float highest = kMinusInfinity, sum = 0, o[4] = {};
#pragma unroll
      for (int w = 0; w < kDecodeWarps; ++w) {
        statistics[w] = load_shared_pair(memory.statistics(w, row));
        highest = fmaxf(highest, statistics[w].x);
      }
      const float base = highest == kMinusInfinity ? 0 : highest;
#pragma unroll
      for (int w = 0; w < kDecodeWarps; ++w) {
        sum += statistics[w].y * exp2_fast((statistics[w].x - base) * args.factor);
        std::uint32_t words[4];
        load_shared(words, memory.merge(w, row - 8 * h, column));
#pragma unroll
        for (int c = 0; c < 4; ++c) o[c] += bits_to_float(words[c]);
      }
      const bool partial = args.splits.count > 1;
      const int i = row / p.group, head = item.head_kv * p.group + row % p.group;
      const Keys keys = item.sequence.allowed(i);
      const bool has_keys = i < item.sequence.seqlen_q && keys.lo < keys.hi;
      const RowResult result =
          finish_row(multiply_rounded(highest, p.scale), sum, has_keys, p.sinks && !partial ? p.sinks + head : nullptr);
#pragma unroll
      for (int c = 0; c < 4; ++c) o[c] = result.inverse == 0 ? 0 : o[c] * result.inverse;
      const std::int64_t index = lse_index(p, item.sequence, item.b, head, i);
      if (partial) {
        const std::int64_t to = item.split * args.splits.rows + index;
        if (column == 0) args.splits.lse[to] = result.lse;
        *reinterpret_cast<float4*>(args.splits.o + to * kD + column) = make_float4(o[0], o[1], o[2], o[3]);
      } else {
        if (p.lse && column == 0) p.lse[index] = result.lse;
        if (column < p.dv_dim) {
          auto* const to = static_cast<std::uint16_t*>(p.o.data) +
                           head_offset(p.o, item.b, head, item.sequence.q_begin + i) + column;
          *reinterpret_cast<uint2*>(to) = make_uint2(pack<T>(o[0], o[1]), pack<T>(o[2], o[3]));
        }
      }
    }
    consumers_sync();
  }
}

template <class T, int kD>
__device__ __forceinline__ void attend_items(const DecodeArgs& args, const DecodeMemory<kD>& memory) {
  constexpr int kKeys = kDecodeKeys<kD>;
  constexpr int kTileWarps = kDecodeTileWarps<kD>, kTeams = kDecodeTeams<kD>;
  static_assert(kTeams + kDecodeStages <= kDecodeFullBarriers);  // see DecodeStage
  const int warp_in_tile = warp_index() % kTileWarps * kDecodeWarpKeys;
  const auto team = static_cast<std::uint32_t>(warp_index() / kTileWarps);
  std::uint32_t count = 0;
  for (int index = static_cast<int>(blockIdx.x); index < args.items; index += static_cast<int>(gridDim.x)) {
    const DecodeItem<kKeys> item(args, index);
    DecodeWarp<T, kD> warp(args, item);
    for (int tile = item.begin; tile < item.end; ++tile, ++count) {
      if (count % kTeams != team) continue;
      const DecodeStage at(count);
      memory.full(at.full).wait(at.full_parity);
      warp.add(item, memory.k(at.stage), memory.v(at.stage), tile * kKeys + warp_in_tile, warp_in_tile);
      warp_sync();
      if (lane_index() == 0) memory.empty(at.stage).arrive();
    }
    // A second copy of the item: with the first, the loop would spill registers.
    finish_item(args, memory, DecodeItem<kKeys>(args, index), warp);
  }
}

template <class T, int kD>
__global__ void __launch_bounds__((kDecodeWarps + 1) * kWarpLanes, 1)
    decode_kernel(const __grid_constant__ DecodeArgs args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  const DecodeMemory<kD> memory;
  if (threadIdx.x == 0) {
    for (int index = 0; index < kDecodeFullBarriers; ++index) memory.full(index).begin(1);
    for (int stage = 0; stage < kDecodeStages; ++stage) memory.empty(stage).begin(kDecodeTileWarps<kD>);
    publish_barriers();
  }
  block_sync();
  if (args.splits.count > 1) allow_next_kernel();
  if (warp_index() < kDecodeWarps) {
    attend_items<T>(args, memory);
  } else if (elect()) {
    load_items(args, memory);
  }
#endif
}

template <int kD>
void DecodeKernels<kD>::launch(const DecodeLaunch& launch, const DecodeArgs& args) {
  const Launch how{"hopper decode", std::min<std::int64_t>(args.items, launch.multiprocessors),
                   (kDecodeWarps + 1) * kWarpLanes, decode_shared_bytes(kD), launch.stream};
  if (launch.dtype == DType::fp16) {
    launch_kernel(decode_kernel<Fp16, kD>, how, args);
  } else {
    launch_kernel(decode_kernel<Bf16, kD>, how, args);
  }
}

}  // namespace strobe::cuda::sm90
