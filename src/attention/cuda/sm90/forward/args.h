// What the Hopper forward kernel is started with: what it reads and no more, see batch.h.
#pragma once

#include <cuda.h>

#include "attention/cuda/params.h"
#include "attention/cuda/sm90/batch.h"
#include "attention/cuda/sm90/device/tile_order.h"
#include "attention/cuda/splits.h"

namespace strobe::cuda::sm90 {

// As in Params.
struct ForwardParams : Batch {
  Tensor o;
  float* lse = nullptr;
  const float* sinks = nullptr;
  float softcap = 0;

  ForwardParams() = default;
  explicit ForwardParams(const Params& p) : Batch(p), o(p.o), lse(p.lse), sinks(p.sinks), softcap(p.softcap) {}
};

struct ForwardArgs {
  CUtensorMap q, k, v;  // boxes of 64 columns x the rows of a tile
  ForwardParams params;
  TileOrder order;  // of the tiles of rows of all query heads, times the splits of their keys
  Splits splits;
};

// With dropout: as in Params.
struct DroppingForwardArgs : ForwardArgs {
  std::uint32_t threshold = 0;
  float scale = 1;
  std::uint32_t philox_keys[10][2] = {};
};

}  // namespace strobe::cuda::sm90
