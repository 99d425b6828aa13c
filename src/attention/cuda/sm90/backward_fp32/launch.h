// Arguments and launch of the Hopper backward for fp32. First flash2's kernel computes the row statistics. Then the
// kernels of this folder split tiles, process key tiles and convert the dQ sums. If two split floats per element are
// not enough, these kernels return at once, and flash2's kernels with three split floats, launched last, compute the
// gradients.
#pragma once

#include <cstdint>

#include "attention/cuda/sm80/backward/launch.h"
#include "attention/cuda/sm90/backward/args.h"
#include "attention/cuda/sm90/backward/launch.h"
#include "attention/cuda/sm90/backward_fp32/config.h"

namespace strobe::cuda::sm90 {

// Tiles of Q, dO, K and V as two split floats per element. The tiles are in the workspace, in the layout of shared
// memory; unused rows are zeros. Row tiles are indexed like those of dQ, key tiles by key_tile_index() (load.cuh).
struct Fp32SplitTiles {
  unsigned char *q = nullptr, *d_o = nullptr;  // [row tiles][2 split floats][rows][padded head dimension]
  unsigned char *k = nullptr, *v = nullptr;    // [key tiles][2 split floats][keys][padded head dimension]
  float* row_scales = nullptr;                 // [row tiles][2]: factors that undo the scales of Q and dO
  float* key_scales = nullptr;                 // [key tiles][2]: factors that undo the scales of K and V
  std::int64_t key_tiles_per_head = 0;         // packed batch: key tiles per head, one extra per sequence
  std::uint32_t* spread = nullptr;             // nonzero if two split floats are not enough; set by fp32_split_kernel
};

struct Fp32BackwardArgs : KeyTilesArgs {
  Fp32SplitTiles terms;
  const sm80::RowFacts* facts = nullptr;  // indexed like LSE
};

struct Fp32SplitArgs : Fp32BackwardArgs {
  Tensor q, k, v, d_o;
  const float* lse = nullptr;  // indexed like LSE
};

struct Fp32RoundArgs : RoundDqArgs {
  const std::uint32_t* spread = nullptr;
};

// Launches the split, key-tile and dQ kernels of one padded head dimension; CMakeLists.txt lists the instances.
template <int kD>
struct Fp32BackwardKernels {
  static void launch(const BackwardLaunch& launch, const Fp32SplitArgs& args);
};

}  // namespace strobe::cuda::sm90
