// Experiments in addition to the rungs. The ablation runs rung `pinned`, the fastest hand-written one, without one of
// its ideas (cuda/ablation.cpp). The tile experiment runs the kernel of rung `float4` with other tile sizes
// (cuda/tiles.cu). main.cpp measures both. A build without CUDA has no experiments (no_cuda.cpp).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "lab/rung.h"

namespace strobe::lab {

struct Variant {
  std::string_view without;  // name of the rung whose idea is left out; "" for the complete kernel
  Run run;
};

// Returns rung `pinned` with all ideas, then one variant per idea left out, in the order of the ladder. All support the
// sizes of Sizes::tiles.
std::span<const Variant> ablation();

// Resources that the kernel with tiles Br x Bc uses on the current GPU, for one head dimension.
struct TileFacts {
  std::size_t shared_bytes = 0;  // per block
  int threads = 0;               // per block
  int registers = 0;             // per thread
  int blocks = 0;                // resident blocks per SM; 0: the GPU has too little shared memory
  double occupancy = 0;          // resident threads per SM / maximum
};

struct Tiles {
  int rows, keys;  // Br, Bc; N must be a multiple of both
  Run run;
  TileFacts (*facts)(int dim);
};

std::span<const Tiles> tiles();

}  // namespace strobe::lab
