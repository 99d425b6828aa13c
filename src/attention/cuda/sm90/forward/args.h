// What the Hopper forward kernel is started with.
#pragma once

#include <cuda.h>

#include "attention/cuda/params.h"
#include "attention/cuda/sm90/device/tile_order.h"
#include "attention/cuda/splits.h"

namespace strobe::cuda::sm90 {

struct ForwardArgs {
  CUtensorMap q, k, v;  // boxes of 64 columns x the rows of a tile
  Params params;
  TileOrder order;  // of the tiles of rows of all query heads, times the splits of their keys
  Splits splits;
};

}  // namespace strobe::cuda::sm90
