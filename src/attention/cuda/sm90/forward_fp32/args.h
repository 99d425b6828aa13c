// Arguments of the Hopper forward kernel for fp32.
#pragma once

#include "attention/cuda/params.h"
#include "attention/cuda/sm90/device/tile_order.h"
#include "attention/cuda/splits.h"

namespace strobe::cuda::sm90 {

struct Fp32ForwardParams : InputParams, OutputParams {
  Fp32ForwardParams() = default;
  explicit Fp32ForwardParams(const Params& params) : InputParams(params), OutputParams(params) {}
};

struct Fp32ForwardArgs {
  Fp32ForwardParams params;
  TileOrder order;  // of the tiles of rows of all query heads, times the splits of their keys
  Splits splits;
  float factor = 1;   // products of q and k times this are logits in units of log2
  float natural = 1;  // the unit of those: scale / factor, which is ln 2 but for the rounding of factor
};

}  // namespace strobe::cuda::sm90
