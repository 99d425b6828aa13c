// What the Hopper forward kernel is started with.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "attention/cuda/params.h"

namespace strobe::cuda::sm90 {

struct ForwardArgs {
  CUtensorMap q, k, v;  // boxes of 64 columns x the rows of a tile
  Params params;
  std::int32_t row_tiles = 0;      // of a head
  std::int32_t section_heads = 1;  // heads whose tiles are worked off together, so that their keys stay in the L2 cache
};

}  // namespace strobe::cuda::sm90
