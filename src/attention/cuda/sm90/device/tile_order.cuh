// Which tiles a block of a persistent grid works on, and in which order: longest first within a section of heads, back
// and forth over the blocks, so that each gets its share of long and short ones without a counter in memory.
#pragma once

#include <cstdint>

namespace strobe::cuda::sm90 {

struct TilePlace {
  int b, head, tile;
};

struct TileOrder {
  unsigned heads, tiles;  // query heads, tiles of a head
  unsigned section;       // heads whose tiles are worked off together
  unsigned units;         // batch * heads; units * tiles fits 31 bits

  // The n-th tile of this block; false from where there are no more.
  __device__ __forceinline__ bool get(unsigned n, TilePlace& place) const {
    const unsigned index = n * gridDim.x + (n % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
    if (index >= units * tiles) return false;
    const unsigned first = index / (section * tiles) * section;
    const unsigned here = min(section, units - first);
    const unsigned rest = index - first * tiles;
    const unsigned unit = first + rest % here;
    place = {static_cast<int>(unit / heads), static_cast<int>(unit % heads), static_cast<int>(tiles - 1 - rest / here)};
    return true;
  }
};

}  // namespace strobe::cuda::sm90
