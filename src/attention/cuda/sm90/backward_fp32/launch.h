// Arguments and launch of the Hopper backward for fp32: flash2's kernel finds the facts of rows, then tiles are split
// into parts, then come tiles of keys and dQ. Last, flash2's kernels with three parts do the work if elements differ
// too much in size, and else nothing.
#pragma once

#include <cstdint>

#include "attention/cuda/sm80/backward/launch.h"
#include "attention/cuda/sm90/backward/args.h"
#include "attention/cuda/sm90/backward/launch.h"
#include "attention/cuda/sm90/backward_fp32/config.h"

namespace strobe::cuda::sm90 {

// Tiles of Q, dO, K and V in two parts, in the workspace: as they are to lie in shared memory, rows that nobody uses as
// zeros. Tiles of rows are counted as those of dQ, tiles of keys likewise.
struct Fp32PartTiles {
  unsigned char *q = nullptr, *d_o = nullptr;  // [tiles of rows][2 parts][rows][padded head dimension]
  unsigned char *k = nullptr, *v = nullptr;    // [tiles of keys][2 parts][keys][padded head dimension]
  float* row_scales = nullptr;                 // [tiles of rows][2]: what brings Q and dO back to their size
  float* key_scales = nullptr;                 // [tiles of keys][2]: K and V
  std::int64_t key_tiles_per_head = 0;         // packed batch: of all sequences, one more each for a part
  std::uint32_t* spread = nullptr;             // not 0 where two parts are not enough: see split.cuh
};

struct Fp32BackwardArgs : KeyTilesArgs {
  Fp32PartTiles parts;
  const sm80::RowFacts* facts = nullptr;  // [rows as LSE counts them]
};

struct Fp32SplitArgs : Fp32BackwardArgs {
  Tensor q, k, v, d_o;
  const float* lse = nullptr;  // [rows as LSE counts them]
};

struct Fp32RoundArgs : RoundDqArgs {
  const std::uint32_t* spread = nullptr;
};

// Splitting, tiles of keys and dQ of one padded head dimension; CMakeLists.txt lists the instances.
template <int kD>
struct Fp32BackwardKernels {
  static void launch(const BackwardLaunch& launch, const Fp32SplitArgs& args);
};

}  // namespace strobe::cuda::sm90
