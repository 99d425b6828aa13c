// Producer of the Hopper forward: one thread takes row tiles from the scheduler and loads Q, K and V by TMA.
#pragma once

#include "attention/cuda/sm90/device/load.cuh"
#include "attention/cuda/sm90/forward/args.h"
#include "attention/cuda/sm90/forward/memory.cuh"
#include "attention/cuda/sm90/forward/work.cuh"

namespace strobe::cuda::sm90 {

template <int kD, int kDv, ForwardShape kShape>
__device__ __forceinline__ void load_tiles(const ForwardArgs& args, const ForwardMemory<kD, kDv, kShape>& memory) {
  using Memory = ForwardMemory<kD, kDv, kShape>;
  constexpr int kRows = Memory::kRows, kKeys = Memory::kKeys;
  const ForwardParams& p = args.params;
  PipelineState<Memory::kQStages> q_at;
  PipelineState<Memory::kPipelineStages> k_at[Memory::kPipelines], v_at[Memory::kPipelines];
  std::uint32_t index = args.scheduler.index(0);
  for (std::uint32_t n = 1;; ++n) {
    const WorkTile work_tile = args.scheduler.at(index);
    const auto begin_tile = [&] {
      memory.q_free(q_at.stage).wait(q_at.parity ^ 1);
      store_work_tile(memory.work_tile(q_at.stage), work_tile);
    };
    if (work_tile.b < 0) {
      begin_tile();
      memory.q_full(q_at.stage).arrive();
      return;
    }
    const ForwardWork<kRows, kKeys, kShape.passes, kShape.splits> work(args, work_tile);
    if (work.begin == work.end) {
      begin_tile();
      memory.q_full(q_at.stage).arrive();
      q_at.move();
      index = args.scheduler.index(n);
      continue;
    }
    const int batch = p.packed ? 0 : work_tile.b, head_kv = work_tile.head / p.group;
    const int q_row = static_cast<int>(work.sequence.q_begin) + work.first_row;
    const int k_row = static_cast<int>(work.sequence.k_begin);
    const auto load_k = [&]<int kPipeline>(int tile) {
      const int stage = kPipeline * Memory::kPipelineStages + k_at[kPipeline].stage;
      memory.k_free(stage).wait(k_at[kPipeline].parity ^ 1);
      copy_tile<kKeys, kD>(memory.k(stage), args.k, k_row + tile * kKeys, head_kv, batch, memory.k_full(stage));
      k_at[kPipeline].move();
    };
    const auto load_v = [&]<int kPipeline>(int tile) {
      const int stage = kPipeline * Memory::kPipelineStages + v_at[kPipeline].stage;
      memory.v_free(stage).wait(v_at[kPipeline].parity ^ 1);
      copy_tile<kKeys, kDv>(memory.v(stage), args.v, k_row + tile * kKeys, head_kv, batch, memory.v_full(stage));
      v_at[kPipeline].move();
    };
    // The last key tile goes to the first pipeline; if there are two pipelines, they alternate.
    constexpr int kOther = Memory::kPipelines - 1;
    const auto is_other = [&](int tile) { return kOther > 0 && (work.end - 1 - tile) % 2 > 0; };
    load_k.template operator()<0>(work.end - 1);
    begin_tile();
    copy_tile<kRows, kD>(memory.q(q_at.stage), args.q, q_row, work_tile.head, batch, memory.q_full(q_at.stage));
    q_at.move();
    for (int tile = work.end - 2; tile >= work.begin; --tile) {
      if (is_other(tile)) {
        load_k.template operator()<kOther>(tile);
        load_v.template operator()<0>(tile + 1);
      } else {
        load_k.template operator()<0>(tile);
        load_v.template operator()<kOther>(tile + 1);
      }
    }
    // The next tile is requested only here, because a block with a long tile must not hold one that an idle block could
    // process. The atomic's latency overlaps with the wait for the last stage.
    index = args.scheduler.index(n);
    if (is_other(work.begin)) {
      load_v.template operator()<kOther>(work.begin);
    } else {
      load_v.template operator()<0>(work.begin);
    }
  }
}

}  // namespace strobe::cuda::sm90
