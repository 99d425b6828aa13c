// Reducer of the Hopper backward: one thread of the producer warpgroup adds dQ of each row tile to global memory. The
// thread adds both consumers' halves from shared memory by bulk reduction (cp.reduce.async.bulk). The consumers thus
// neither issue global reductions nor wait for them. With `deterministic` the reducer also orders the additions.
#pragma once

#include "attention/cuda/device/ptx.cuh"
#include "attention/cuda/sm90/backward/memory.cuh"
#include "attention/cuda/sm90/backward/work.cuh"

namespace strobe::cuda::sm90 {

// Message from the producer warp to the reducer about one row tile.
struct RowTileNote {
  static constexpr std::uint32_t kEnd = ~0u;  // no more row tiles
  std::uint32_t tile = 0;                     // index of the tile, from row_tile_index()
  std::uint32_t add_index = 0;                // `deterministic`: number of additions to the tile before this one
  std::int32_t unit = -1;                     // at the last row tile of a key tile: b * heads_kv + head; otherwise -1
};

template <class Memory, int kD>
struct BackwardReducer {
  static_assert(kBackwardConsumers == 2);

  const BackwardArgs& args;
  const Memory& memory;
  PipelineState<2> note_at{};
  std::uint32_t parity = 0;  // phase of dq_full

  __device__ __forceinline__ void run() {
    for (RowTileNote note; (note = next_note()).tile != RowTileNote::kEnd;) {
      if (args.dq_semaphore) wait_for_dq_semaphore(note);
      add(args.dq_sum + std::int64_t{note.tile} * (Memory::kRows * kD));
      if (args.dq_semaphore || note.unit >= 0) bulk_wait();
      if (args.dq_semaphore) release(args.dq_semaphore + note.tile, note.add_index + 1);
      if (note.unit >= 0) count_up(args.keys_done + note.unit);
    }
  }

 private:
  __device__ __forceinline__ RowTileNote next_note() {
    memory.note_full(note_at.stage).wait(note_at.parity);
    std::uint32_t words[4];
    load_shared(words, memory.note(note_at.stage));
    memory.note_free(note_at.stage).arrive();
    note_at.move();
    return {words[0], words[1], static_cast<std::int32_t>(words[2])};
  }

  __device__ __forceinline__ void wait_for_dq_semaphore(const RowTileNote& note) const {
    while (static_cast<int>(watch(args.dq_semaphore + note.tile) - note.add_index) < 0) {
    }
    asm volatile("fence.proxy.async;" ::: "memory");
  }

  __device__ __forceinline__ void add(float* sum) {
#pragma unroll
    for (int consumer = 0; consumer < kBackwardConsumers; ++consumer) {
      memory.dq_full(consumer).wait(parity);
      bulk_reduce_add(sum + consumer * (Memory::kDqBytes / 4), memory.dq(consumer), Memory::kDqBytes);
    }
    parity ^= 1;
    bulk_wait_read<1>();
    memory.dq_free(0).arrive();
    bulk_wait_read<0>();
    memory.dq_free(1).arrive();
  }
};

}  // namespace strobe::cuda::sm90
