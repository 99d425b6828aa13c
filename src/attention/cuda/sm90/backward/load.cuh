// Producer warp of the Hopper backward: takes work items from the work counter, and lane 0 loads K, V and the tiles of
// Q and dO by TMA. LSE and delta go through the registers of all lanes instead, because racecheck does not follow the
// order that a bulk copy's mbarrier establishes.
#pragma once

#include "attention/cuda/device/ptx.cuh"
#include "attention/cuda/device/tile.cuh"
#include "attention/cuda/sm90/backward/bias.cuh"
#include "attention/cuda/sm90/backward/memory.cuh"
#include "attention/cuda/sm90/backward/reduce.cuh"
#include "attention/cuda/sm90/backward/work.cuh"
#include "attention/cuda/sm90/device/load.cuh"

namespace strobe::cuda::sm90 {

template <int kD, BackwardShape kShape, class Args>
struct BackwardLoader {
  using Memory = BackwardMemory<kD, kShape, HasBias<Args>>;
  static constexpr int kRows = Memory::kRows, kKeys = Memory::kKeys, kStages = Memory::kStages;
  using Work = BackwardWork<kRows, kKeys>;

  const Args& args;
  const Memory& memory;
  PipelineState<2> work_at{};
  PipelineState<kStages> q_at{}, d_o_at{};
  PipelineState<2> note_at{};
  PipelineState<kBiasStages> bias_at{};
  std::uint32_t keys_parity = 0;
  const int lane = lane_index();

  __device__ __forceinline__ void run() {
    const unsigned tiles = backward_tiles(args);
    unsigned work_index = take();
    for (; work_index < tiles; work_index = take()) {
      hand_on(work_index);
      const Work work(args, work_index);
      if (work.begin < work.end) {
        load(work);
      } else if (Memory::kReducesInBulk && lane == 0) {
        count_up(keys_done_of(args, work.b, work.head));
      }
    }
    for (; work_index < backward_work_items(args); work_index = take())
      hand_on(work_index);  // consumers load the dQ sums themselves
    hand_on(work_index);
    if constexpr (Memory::kReducesInBulk) note({.tile = RowTileNote::kEnd});
  }

 private:
  __device__ __forceinline__ unsigned take() const {
    return same_for_warp(lane == 0 ? take_work_index(args.work_counter) : 0u);
  }

  __device__ __forceinline__ void hand_on(unsigned work_index) {
    memory.work_free(work_at.stage).wait(work_at.parity ^ 1);
    if (lane == 0) {
      store_shared(memory.work_index(work_at.stage), work_index);
      memory.work_full(work_at.stage).arrive();
    }
    work_at.move();
  }

  // Loads in the order of use. Q and dO of the next key tile are prefetched while the block works on the last row
  // tiles.
  __device__ __forceinline__ void load(const Work& work) {
    const int first_head = work.head * args.params.group;
    int head = first_head, tile = work.begin;
    load_q(work, head, tile);
    memory.keys_free().wait(keys_parity ^ 1);
    keys_parity ^= 1;
    load_keys(work, args.k_map, memory.k(), memory.k_full());
    load_d_o(work, head, tile);
    load_keys(work, args.v_map, memory.v(), memory.v_full());
    load_bias(work, head, tile);
    for (;;) {
      if (++tile == work.end) {
        tile = work.begin;
        if (++head == first_head + args.params.group) return;
      }
      load_q(work, head, tile);
      load_d_o(work, head, tile);
      load_bias(work, head, tile);
    }
  }

  __device__ __forceinline__ int batch(const Work& work) const { return args.params.packed ? 0 : work.b; }

  __device__ __forceinline__ void load_keys(const Work& work, const CUtensorMap& map, std::uint32_t to,
                                            Barrier full) const {
    const int row = static_cast<int>(work.sequence.k_begin) + work.first_key;
    if (lane == 0) copy_tile<kKeys, kD>(to, map, row, work.head, batch(work), full);
  }

  __device__ __forceinline__ void load_rows(const Work& work, const CUtensorMap& map, int head, int tile,
                                            std::uint32_t to, Barrier full) const {
    const int row = static_cast<int>(work.sequence.q_begin) + tile * kRows;
    if (lane == 0) copy_tile<kRows, kD>(to, map, row, head, batch(work), full);
  }

  __device__ __forceinline__ void load_q(const Work& work, int head, int tile) {
    constexpr int kAll = Memory::kFactBytes / 16, kChunks = (kAll + 31) / 32;  // 16-byte chunks: all, per lane
    const Barrier full = memory.q_full(q_at.stage);
    memory.q_free(q_at.stage).wait(q_at.parity ^ 1);
    const std::int64_t index = row_tile_index(args, work.sequence, work.b, head, tile, kRows);
    const auto* const facts = reinterpret_cast<const uint4*>(args.row_facts + index * (kRowFacts<Args> * kRows)) + lane;
    uint4 chunk[kChunks];
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      if (kAll % 32 == 0 || lane + 32 * i < kAll) chunk[i] = facts[32 * i];
    }
    load_rows(work, args.q_map, head, tile, memory.q(q_at.stage), full);
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      if (kAll % 32 != 0 && lane + 32 * i >= kAll) break;
      const std::uint32_t words[4] = {chunk[i].x, chunk[i].y, chunk[i].z, chunk[i].w};
      store_shared(memory.lse(q_at.stage) + static_cast<std::uint32_t>(lane + 32 * i) * 16, words);
    }
    full.arrive();
    if constexpr (Memory::kReducesInBulk) {
      const bool last = tile + 1 == work.end && head + 1 == (work.head + 1) * args.params.group;
      note({.tile = static_cast<std::uint32_t>(index),
            .add_index = args.dq_semaphore ? dq_add_index<kRows, kKeys>(work.sequence, tile, work.tile) : 0,
            .unit = last ? work.b * args.params.heads_kv + work.head : -1});
    }
    q_at.move();
  }

  __device__ __forceinline__ void load_bias(const Work& work, int head, int tile) {
    if constexpr (HasBias<Args>) {
      const Barrier full = memory.bias_full(bias_at.stage);
      memory.bias_free(bias_at.stage).wait(bias_at.parity ^ 1);
      if (lane == 0) {
#pragma unroll
        for (int key = 0; key < kKeys; key += 64) {
          copy_box(memory.bias(bias_at.stage) + key / 64 * kSlabBytes<kRows>, args.bias_map, work.first_key + key,
                   tile * kRows, args.bias.head == 0 ? 0 : head, args.bias.batch == 0 ? 0 : work.b, full);
        }
        full.arrive_expecting(Memory::kBiasBytes);
      }
      bias_at.move();
    }
  }

  __device__ __forceinline__ void note(const RowTileNote& note) {
    memory.note_free(note_at.stage).wait(note_at.parity ^ 1);
    if (lane == 0) {
      store_shared(memory.note(note_at.stage), {note.tile, note.add_index, static_cast<std::uint32_t>(note.unit), 0});
      memory.note_full(note_at.stage).arrive();
    }
    note_at.move();
  }

  __device__ __forceinline__ void load_d_o(const Work& work, int head, int tile) {
    memory.d_o_free(d_o_at.stage).wait(d_o_at.parity ^ 1);
    load_rows(work, args.d_o_map, head, tile, memory.d_o(d_o_at.stage), memory.d_o_full(d_o_at.stage));
    d_o_at.move();
  }
};

}  // namespace strobe::cuda::sm90
