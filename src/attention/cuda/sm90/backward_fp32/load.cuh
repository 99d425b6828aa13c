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
  std::uint32_t tickets = 0, keys = 0, rows = 0;  // tiles passed so far

  __device__ __forceinline__ void run() {
    for (bool more = true; more;) {
      unsigned ticket = 0;
      const int lane = thread_anew();
      if (lane == 0) ticket = take_ticket(args.ticket);
      ticket = same_for_warp(ticket);
      const auto stage = static_cast<int>(tickets % 2);
      memory.ticket_free(stage).wait(parity(tickets / 2));
      if (lane == 0) {
        store_shared(memory.ticket(stage), ticket);
        memory.ticket_full(stage).arrive();
      }
      ++tickets;
      more = ticket < backward_tiles(args);
      if (!more) return;
      const Work work(args, ticket);
      if (work.begin < work.end) load(work);
    }
  }

 private:
  // Of the phase that must have ended before a place is filled for the (round + 1)-th time; it is open at first.
  __device__ static __forceinline__ std::uint32_t parity(std::uint32_t round) { return (round & 1) ^ 1; }

  // Rows of a block's next keys come while it is at its last ones.
  __device__ __forceinline__ void load(const Work& work) {
    const SequenceParams& p = args.params;
    const int first_head = work.head * p.group, begin = work.begin, end = work.end, length = work.sequence.q_length;
    auto index = static_cast<int>(row_tile_index(args, work.sequence, work.b, first_head, begin, kRows));
    const auto key_index = static_cast<int>(key_tile_index(args, work.sequence, work.b, work.head, work.tile));
    const sm80::RowFacts* facts = args.facts + lse_index(p, work.sequence, work.b, first_head, 0);  // of the head
#pragma unroll 1
    for (int head = 0; head < p.group; ++head) {
#pragma unroll 1
      for (int tile = begin; tile < end; ++tile) {
        load_rows(index + tile - begin, key_index, facts, tile * kRows, length);
        if (head == 0 && tile == begin) load_keys(key_index);
      }
      index += tiles_of_head(args);
      facts += p.total_q;
    }
  }

  __device__ __forceinline__ void load_keys(std::int64_t index) {
    memory.keys_free().wait(parity(keys++));
    if (thread_anew() != 0) return;
    const Barrier full = memory.keys_full();
    full.arrive_expecting(2 * Memory::kKeyBytes);
    copy_bytes(memory.k(), args.parts.k + index * Memory::kKeyBytes, Memory::kKeyBytes, full);
    copy_bytes(memory.v(), args.parts.v + index * Memory::kKeyBytes, Memory::kKeyBytes, full);
  }

  // index: of the tile; key_index: of the tile of keys; facts: of the head, which has `length` rows.
  __device__ __forceinline__ void load_rows(std::int64_t index, std::int64_t key_index, const sm80::RowFacts* facts,
                                            int first_row, int length) {
    static_assert(Memory::kStages == 2);
    const auto stage = static_cast<int>(rows % 2);
    const Barrier full = memory.rows_full(stage);
    memory.rows_free(stage).wait(parity(rows / 2));
    ++rows;
    const int lane = thread_anew();
    if (lane == 0) {
      full.arrive_expecting(2 * Memory::kRowBytes);
      copy_bytes(memory.q(stage), args.parts.q + index * Memory::kRowBytes, Memory::kRowBytes, full);
      copy_bytes(memory.d_o(stage), args.parts.d_o + index * Memory::kRowBytes, Memory::kRowBytes, full);
    }
#pragma unroll
    for (int i = 0; i < kRows; i += 32) {
      const int row = first_row + i + lane;
      float4 fact = make_float4(0, kMinusInfinity, 0, 0);  // past the end: weights of 0
      if (row < length) fact = reinterpret_cast<const float4*>(facts)[row];
      const std::uint32_t words[4] = {float_to_bits(fact.x), float_to_bits(fact.y), float_to_bits(fact.z),
                                      float_to_bits(fact.w)};
      store_shared(memory.facts(stage) + static_cast<std::uint32_t>((i + lane) * 16), words);
    }
    if (lane < 4) {
      const float* const scale =
          lane < 2 ? args.parts.row_scales + 2 * index : args.parts.key_scales + 2 * key_index - 2;
      store_shared(memory.q_scale(stage) + static_cast<std::uint32_t>(lane * 4), float_to_bits(scale[lane]));
    }
    full.arrive();
  }
};

}  // namespace strobe::cuda::sm90
