// The warp that loads in the Hopper backward for fp32: it takes tickets and brings the parts of K, V and of the tiles
// of Q and dO, which lie in the workspace as shared memory is to hold them. Facts of rows go through its registers.
#pragma once

#include "attention/cuda/device/dq_tiles.cuh"
#include "attention/cuda/device/softmax.cuh"
#include "attention/cuda/sm90/backward_fp32/memory.cuh"
#include "attention/cuda/sm90/backward_fp32/split.cuh"

namespace strobe::cuda::sm90 {

template <int kD>
struct Fp32BackwardLoader {
  using Memory = Fp32BackwardMemory<kD>;
  static constexpr int kRows = Memory::kRows, kKeys = Memory::kKeys;
  using Work = BackwardWork<kRows, kKeys>;

  const Fp32BackwardArgs& args;
  const Memory& memory;
  RingPlace<2> ticket_at{};
  RingPlace<Memory::kStages> at{};
  std::uint32_t keys_parity = 0;
  const int lane = lane_index();

  __device__ __forceinline__ void run() {
    for (bool more = true; more;) {
      unsigned ticket = 0;
      if (lane == 0) ticket = take_ticket(args.ticket);
      ticket = same_for_warp(ticket);
      memory.ticket_free(ticket_at.stage).wait(ticket_at.parity ^ 1);
      if (lane == 0) {
        store_shared(memory.ticket(ticket_at.stage), ticket);
        memory.ticket_full(ticket_at.stage).arrive();
      }
      ticket_at.move();
      more = ticket < backward_tiles(args);
      if (!more) return;
      const Work work(args, ticket);
      if (work.begin < work.end) load(work);
    }
  }

 private:
  // Rows of a block's next keys come while it is at its last ones.
  __device__ __forceinline__ void load(const Work& work) {
    const Batch& p = args.params;
    const int first_head = work.head * p.group, begin = work.begin, end = work.end, length = work.sequence.q_length;
    std::int64_t index = row_tile_index(args, work.sequence, work.b, first_head, begin, kRows);
    const std::int64_t keys = key_tile_index(args, work.sequence, work.b, work.head, work.tile);
    std::int64_t row = lse_index(p, work.sequence, work.b, first_head, 0);  // the head's first
    bool first = true;
#pragma unroll 1
    for (int head = 0; head < p.group; ++head) {
#pragma unroll 1
      for (int tile = begin; tile < end; ++tile) {
        load_rows(index + tile - begin, keys, row, tile * kRows, length);
        if (first) load_keys(keys);
        first = false;
      }
      index += p.packed ? args.tiles_per_head : args.row_tiles;
      row += p.total_q;
    }
  }

  __device__ __forceinline__ void load_keys(std::int64_t index) {
    memory.keys_free().wait(keys_parity ^ 1);
    keys_parity ^= 1;
    if (lane != 0) return;
    const Barrier full = memory.keys_full();
    full.arrive_expecting(2 * Memory::kKeyBytes);
    copy_bytes(memory.k(), args.parts.k + index * Memory::kKeyBytes, Memory::kKeyBytes, full);
    copy_bytes(memory.v(), args.parts.v + index * Memory::kKeyBytes, Memory::kKeyBytes, full);
  }

  // index: of the tile; keys: of the tile of keys; head_row: place of the head's row 0 among all rows.
  __device__ __forceinline__ void load_rows(std::int64_t index, std::int64_t keys, std::int64_t head_row, int first_row,
                                            int length) {
    const Barrier full = memory.rows_full(at.stage);
    memory.rows_free(at.stage).wait(at.parity ^ 1);
    if (lane == 0) {
      full.arrive_expecting(2 * Memory::kRowBytes);
      copy_bytes(memory.q(at.stage), args.parts.q + index * Memory::kRowBytes, Memory::kRowBytes, full);
      copy_bytes(memory.d_o(at.stage), args.parts.d_o + index * Memory::kRowBytes, Memory::kRowBytes, full);
    }
#pragma unroll
    for (int i = 0; i < kRows; i += 32) {
      const int row = first_row + i + lane;
      float4 facts = make_float4(0, kMinusInfinity, 0, 0);  // past the end: weights of 0
      if (row < length) facts = reinterpret_cast<const float4*>(args.facts)[head_row + row];
      const std::uint32_t words[4] = {float_to_bits(facts.x), float_to_bits(facts.y), float_to_bits(facts.z),
                                      float_to_bits(facts.w)};
      store_shared(memory.facts(at.stage) + static_cast<std::uint32_t>((i + lane) * 16), words);
    }
    if (lane < 4) {
      const float* const scale = lane < 2 ? args.parts.row_scales + 2 * index : args.parts.key_scales + 2 * keys - 2;
      store_shared(memory.q_scale(at.stage) + static_cast<std::uint32_t>(lane * 4), float_to_bits(scale[lane]));
    }
    full.arrive();
    at.move();
  }
};

}  // namespace strobe::cuda::sm90
