// In which order the blocks of a persistent grid work off the tiles of all heads: each its n-th in turn where all tiles
// take as long, else whoever is free takes the next one, longest first.
#pragma once

#include <cstdint>

namespace strobe::cuda::sm90 {

struct TilePlace {
  int b, head, tile;  // b < 0: no more
};

struct TileOrder {
  std::uint32_t heads = 1, tiles = 0;  // of a sequence, of a head
  std::uint32_t units = 0;             // batch * heads; units * tiles fits 31 bits
  // Units whose tiles are worked off together, all last tiles first: as many as the L2 cache holds the keys of.
  std::uint32_t section = 1;
  // How many tiles were taken after each block's first, zero at the start; null: in turn.
  std::uint32_t* next = nullptr;

#if defined(__CUDACC__)
  // The number of this block's n-th tile, for one thread of it. It may come from memory.
  __device__ __forceinline__ std::uint32_t index(std::uint32_t n) const {
    if (n == 0 || !next) return n * gridDim.x + blockIdx.x;
    return gridDim.x + atomicAdd(next, 1u);
  }

  __device__ __forceinline__ TilePlace at(std::uint32_t index) const {
    if (index >= units * tiles) return {-1, 0, 0};
    const std::uint32_t first = index / (section * tiles) * section;
    const std::uint32_t here = min(section, units - first);
    const std::uint32_t rest = index - first * tiles;
    const std::uint32_t unit = first + rest % here;
    return {static_cast<int>(unit / heads), static_cast<int>(unit % heads), static_cast<int>(tiles - 1 - rest / here)};
  }
#endif
};

#if defined(__CUDACC__)
// A place in shared memory, 16 bytes.
__device__ __forceinline__ void store_place(std::uint32_t to, const TilePlace& place) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %3};" ::"r"(to), "r"(place.b), "r"(place.head), "r"(place.tile)
               : "memory");
}
__device__ __forceinline__ TilePlace load_place(std::uint32_t from) {
  TilePlace place;
  [[maybe_unused]] int unused;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(place.b), "=r"(place.head), "=r"(place.tile), "=r"(unused)
               : "r"(from)
               : "memory");
  return place;
}
#endif

}  // namespace strobe::cuda::sm90
