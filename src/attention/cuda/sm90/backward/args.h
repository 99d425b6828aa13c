// What the Hopper backward kernels are started with, and where the parts of their workspace lie.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "attention/cuda/params.h"

namespace strobe::cuda::sm90 {

struct BackwardArgs {
  CUtensorMap q, d_o, k, v;  // boxes of 64 columns x the rows, or keys, of a tile
  Params params;
  std::int32_t row_tiles = 0, key_tiles = 0;  // of the longest sequence
  std::int32_t section_heads = 1;   // KV heads whose tiles are worked off together, so that dQ stays in the L2 cache
  std::int64_t tiles_per_head = 0;  // packed batch: tiles of rows of all sequences, one more each for a part
  bool deterministic = true;

  float* row_facts = nullptr;       // [tiles of rows][2][rows of a tile]: LSE in powers of two, +inf for rows without
                                    // keys and past the end; delta
  float* dq_sum = nullptr;          // [tiles of rows][rows of a tile * padded head dimension], in register order
  std::uint32_t* turns = nullptr;   // [tiles of rows]: how many blocks have added to the tile; deterministic
  std::uint32_t* ticket = nullptr;  // the next tile of keys to be taken
};

}  // namespace strobe::cuda::sm90
