// Arguments of the Hopper backward kernels: what they read and no more.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "attention/cuda/params.h"

namespace strobe::cuda::sm90 {

// Tiles of rows, in every kernel.
struct RowTilesArgs {
  SequenceParams params;
  std::int32_t row_tiles = 0;       // of the longest sequence
  std::int64_t tiles_per_head = 0;  // packed batch: tiles of rows of all sequences, one more each for a part
  float* dq_sum = nullptr;          // [tiles of rows][rows of a tile * padded head dimension], in register order
  float* row_facts = nullptr;       // [tiles of rows][2][rows of a tile]: LSE in powers of two, +inf for rows without
                                    // keys and past the end; delta
  std::uint32_t* ticket = nullptr;  // the next tile to be taken
  std::uint32_t* keys_done = nullptr;  // [batch * heads_kv]: tiles of keys that have added all that they have to dQ
  std::uint32_t* turns = nullptr;  // [tiles of rows]: how many blocks have added to the tile; null: not `deterministic`
};

struct RoundDqArgs : RowTilesArgs {
  Tensor dq;
};

// Tiles of keys, that blocks take by tickets.
struct KeyTilesArgs : RoundDqArgs {
  std::int32_t key_tiles = 0;      // of the longest sequence
  std::int32_t section_heads = 1;  // KV heads whose tiles are worked off together, so that dQ stays in the L2 cache
  std::uint32_t dq_tickets = 0;    // after those of all tiles of keys, each to round dQ of a tile of rows; fp32: none
  Tensor dk, dv;
};

// What is done row by row before any tile of keys, in pieces that warps take.
struct RowFactsArgs {
  Tensor o, d_o;
  const float* lse = nullptr;
  // The next piece, and behind it how many are done; both begin at 0. Null: all blocks are on the GPU together.
  std::uint32_t* ticket = nullptr;
  std::uint32_t pieces = 0, strips_of_piece = 1;
  std::int64_t strips = 0;  // of 16 rows of a tile
};

struct BackwardArgs : KeyTilesArgs {
  RowFactsArgs rows;
  CUtensorMap q_map, d_o_map, k_map, v_map;  // boxes of 64 columns x the rows, or keys, of a tile
};
static_assert(sizeof(BackwardArgs) <= 1024, "the host pays for every byte of a kernel's arguments");

}  // namespace strobe::cuda::sm90
