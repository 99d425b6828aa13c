// The thread that loads in the Hopper forward: it takes tiles of rows and brings Q, K and V.
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
  RingPlace<Memory::kQStages> q_at;
  RingPlace<Memory::kStages> k_at, v_at;
  std::uint32_t index = args.order.index(0);
  for (std::uint32_t n = 1;; ++n) {
    const TilePlace place = args.order.at(index);
    const auto begin_tile = [&] {
      memory.q_free(q_at.stage).wait(q_at.parity ^ 1);
      store_place(memory.place(q_at.stage), place);
    };
    if (place.b < 0) {
      begin_tile();
      memory.q_full(q_at.stage).arrive();
      return;
    }
    const ForwardWork<kRows, kKeys, kShape.passes, kShape.splits> work(args, place);
    if (work.begin == work.end) {
      begin_tile();
      memory.q_full(q_at.stage).arrive();
      q_at.move();
      index = args.order.index(n);
      continue;
    }
    const int batch = p.packed ? 0 : place.b, head_kv = place.head / p.group;
    const int q_row = static_cast<int>(work.sequence.q_begin) + work.first_row;
    const int k_row = static_cast<int>(work.sequence.k_begin);
    const auto load_k = [&](int tile) {
      memory.k_free(k_at.stage).wait(k_at.parity ^ 1);
      copy_tile<kKeys, kD>(memory.k(k_at.stage), args.k, k_row + tile * kKeys, head_kv, batch,
                           memory.k_full(k_at.stage));
      k_at.move();
    };
    const auto load_v = [&](int tile) {
      memory.v_free(v_at.stage).wait(v_at.parity ^ 1);
      copy_tile<kKeys, kDv>(memory.v(v_at.stage), args.v, k_row + tile * kKeys, head_kv, batch,
                            memory.v_full(v_at.stage));
      v_at.move();
    };
    load_k(work.end - 1);
    begin_tile();
    copy_tile<kRows, kD>(memory.q(q_at.stage), args.q, q_row, place.head, batch, memory.q_full(q_at.stage));
    q_at.move();
    for (int tile = work.end - 2; tile >= work.begin; --tile) {
      load_k(tile);
      load_v(tile + 1);
    }
    // As late as this, or a block with a long tile would hold the next one that another has time for. The number comes
    // while the last copy waits for room.
    index = args.order.index(n);
    load_v(work.begin);
  }
}

}  // namespace strobe::cuda::sm90
