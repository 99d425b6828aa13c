// Arguments of the Hopper backward kernels: only the fields that they read. launch.cpp of each kernel fills them.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "attention/cuda/params.h"

namespace strobe::cuda::sm90 {

// Row tiles; every kernel has these.
struct RowTilesArgs {
  SequenceParams params;
  std::int32_t row_tiles = 0;  // row tiles of the longest sequence
  // packed batch: row tiles per head, with an extra one per sequence for its partial tile
  std::int64_t tiles_per_head = 0;
  float* dq_sum = nullptr;  // [row tiles][rows of a tile * padded head dimension], in accumulator order (dq.cuh)
  // [row tiles][2][rows of a tile]: LSE * log2(e), +inf for rows without keys and past the end; delta
  float* row_facts = nullptr;
  std::uint32_t* ticket = nullptr;     // work counter: the next tile
  std::uint32_t* keys_done = nullptr;  // [batch * heads_kv]: key tiles (of single blocks) whose dQ is added
  std::uint32_t* turns = nullptr;  // [row tiles]: semaphore, additions to the tile so far; null: not `deterministic`
};

struct RoundDqArgs : RowTilesArgs {
  Tensor dq;
};

// Key tiles, which blocks take from the work counter.
struct KeyTilesArgs : RoundDqArgs {
  std::int32_t key_tiles = 0;      // key tiles of the longest sequence
  std::int32_t section_heads = 1;  // KV heads per L2 swizzle group, so that dQ stays in the L2 cache
  std::uint32_t dq_tickets = 0;    // they follow the key tiles: one per row tile whose dQ is rounded; fp32: none
  Tensor dk, dv;
};

// Row preparation, before any key tile. Each warp takes pieces: consecutive strips of 16 rows.
struct RowFactsArgs {
  Tensor o, d_o;
  const float* lse = nullptr;
  // Work counter of pieces, followed by the number of completed ones; both start at 0. Null: cooperative launch.
  std::uint32_t* ticket = nullptr;
  std::uint32_t pieces = 0, strips_of_piece = 1;
  std::int64_t strips = 0;  // 16-row strips of all row tiles
};

struct BackwardArgs : KeyTilesArgs {
  RowFactsArgs rows;
  CUtensorMap q_map, d_o_map, k_map, v_map;  // boxes of 64 columns x the rows, or keys, of a tile
};
static_assert(sizeof(BackwardArgs) <= 1024,
              "BackwardArgs exceeds 1024 bytes: each byte of arguments costs launch time");

}  // namespace strobe::cuda::sm90
