// Work items of the Hopper backward. Blocks take the indices of work items from a work counter, so blocks that finish
// early take more. The first work items are the key tiles. With `deterministic` a key tile waits only for key tiles
// taken before it. In the 16-bit kernels work items that round dQ of one row tile each follow; they wait for the key
// tiles.
#pragma once

#include "attention/cuda/device/dq_tiles.cuh"
#include "attention/cuda/sm90/backward/args.h"

namespace strobe::cuda::sm90 {

__device__ __forceinline__ unsigned backward_tiles(const KeyTilesArgs& args) {
  return static_cast<unsigned>(args.params.batch * args.params.heads_kv) * static_cast<unsigned>(args.key_tiles);
}

__device__ __forceinline__ unsigned backward_work_items(const KeyTilesArgs& args) {
  return backward_tiles(args) + args.dq_work_items;
}

// The index-th row tile of all query heads.
struct RowTile {
  int tile, head, b;

  __device__ __forceinline__ RowTile(const RowTilesArgs& args, unsigned index) {
    const auto tiles = static_cast<unsigned>(args.row_tiles), heads = static_cast<unsigned>(args.params.heads_q);
    tile = static_cast<int>(index % tiles);
    head = static_cast<int>(index / tiles % heads);
    b = static_cast<int>(index / tiles / heads);
  }
};

// Returns the counter of completed key tiles of a KV head.
__device__ __forceinline__ std::uint32_t* keys_done_of(const RowTilesArgs& args, int b, int head_kv) {
  return args.keys_done + static_cast<std::int64_t>(b) * args.params.heads_kv + head_kv;
}

// A key tile of one KV head, and the row tiles [begin, end) that see it.
template <int kRows, int kKeys>
struct BackwardWork {
  int b, head, tile;  // head: of K and V

 private:
  // Order within an L2 swizzle group: tile by tile, and all heads for each tile. The first keys come first, because
  // they have the most rows under a causal mask. With `deterministic` and a window bounded on the right the last keys
  // come first, because dQ is accumulated in that order. The first row tiles of a key tile are then those that need not
  // wait.
  __device__ __forceinline__ void place(const KeyTilesArgs& args, unsigned work_index) {
    const auto tiles = static_cast<unsigned>(args.key_tiles), heads = static_cast<unsigned>(args.params.heads_kv),
               l2_swizzle = static_cast<unsigned>(args.l2_swizzle_heads);
    const unsigned first = work_index / (l2_swizzle * tiles) * l2_swizzle;
    const unsigned here = min(l2_swizzle, static_cast<unsigned>(args.params.batch) * heads - first);
    const unsigned rest = work_index - first * tiles;
    const unsigned unit = first + rest % here;
    const unsigned batch = static_cast<unsigned>(args.params.batch);
    b = static_cast<int>(args.batch_innermost ? unit % batch : unit / heads);
    head = static_cast<int>(args.batch_innermost ? unit / batch : unit % heads);
    tile = static_cast<int>(rest / here);
    if (args.dq_semaphore && args.params.window_right >= 0) tile = args.key_tiles - 1 - tile;
  }

  __device__ __forceinline__ int placed(const KeyTilesArgs& args, unsigned work_index) {
    place(args, work_index);
    return b;
  }

 public:
  Sequence sequence;
  int first_key, keys_written;  // first key of the tile; rows of dK and dV to write from there on
  int begin = 0, end = 0;       // row tiles [begin, end)

  __device__ __forceinline__ BackwardWork(const KeyTilesArgs& args, unsigned work_index)
      : sequence(args.params, placed(args, work_index)),
        first_key(tile * kKeys),
        keys_written(sequence.keys_written(args.params) - first_key) {
    if (first_key >= sequence.seqlen_k) return;
    const Keys rows = sequence.rows_of(first_key, min(first_key + kKeys, sequence.seqlen_k) - 1);
    if (rows.lo >= rows.hi) return;
    begin = rows.lo / kRows;
    end = (rows.hi + kRows - 1) / kRows;
  }
};

}  // namespace strobe::cuda::sm90
