// Beside the ladder: what the best hand-written kernel loses without one of its ideas, and which tiles suit it.
// cuda/ablation.cpp and cuda/tiles.cu have them; a build without CUDA has none (no_cuda.cpp).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "lab/rung.h"

namespace strobe::lab {

struct Variant {
  std::string_view without;  // the name of the rung whose idea is left out; "" for the first: nothing is
  Run run;
};

// All that rung `pinned` has, then all but one thing, in the order of the ladder. Sizes as Sizes::tiles.
std::span<const Variant> ablation();

// What a kernel of the tiles Br x Bc takes of a multiprocessor of the current GPU, for a head dimension.
struct TileFacts {
  std::size_t shared_bytes = 0;  // of a block
  int threads = 0;               // of a block
  int registers = 0;             // of a thread
  int blocks = 0;                // that a multiprocessor holds at once; 0: the GPU has too little shared memory
  double occupancy = 0;          // threads of these blocks, of all that it could hold
};

struct Tiles {
  int rows, keys;  // Br, Bc; N must be a multiple of both
  Run run;
  TileFacts (*facts)(int dim);
};

std::span<const Tiles> tiles();

}  // namespace strobe::lab
