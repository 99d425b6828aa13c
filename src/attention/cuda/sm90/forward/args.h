// Arguments of the Hopper forward kernel: only the fields that it reads. launch.cpp fills them.
#pragma once

#include <cuda.h>

#include "attention/cuda/params.h"
#include "attention/cuda/sm90/device/tile_scheduler.h"
#include "attention/cuda/splits.h"

namespace strobe::cuda::sm90 {

struct ForwardParams : OutputParams {
  float softcap = 0;  // as in Params

  ForwardParams() = default;
  explicit ForwardParams(const Params& p) : OutputParams(p), softcap(p.softcap) {}
};

struct ForwardArgs {
  CUtensorMap q, k, v;  // boxes of 64 columns x the rows of one tile
  ForwardParams params;
  TileScheduler scheduler;  // row tiles of all query heads, one work tile per key split
  Splits splits;
};
static_assert(sizeof(ForwardArgs) <= 640, "ForwardArgs exceeds 640 bytes: each byte of arguments costs launch time");

// Arguments of the kernel with dropout: adds the dropout fields of ScoreParams.
struct DroppingForwardArgs : ForwardArgs {
  std::uint32_t threshold = 0;
  float scale = 1;
  std::uint32_t philox_keys[10][2] = {};
};

// Arguments of the kernels with a bias.
struct BiasForwardArgs : ForwardArgs {
  Tensor bias;  // as in ScoreParams, 16-byte aligned rows of T
};

// Arguments of the kernels with ALiBi.
struct AlibiForwardArgs : ForwardArgs {
  const float* alibi_slopes = nullptr;  // [Hq]
};

}  // namespace strobe::cuda::sm90
