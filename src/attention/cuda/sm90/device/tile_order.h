// In which order the blocks of a persistent grid work off the tiles of all heads: each its n-th in turn where all tiles
// take as long, else whoever is free takes the next one, longest first.
#pragma once

#include <algorithm>
#include <cstdint>

namespace strobe::cuda::sm90 {

// Heads in an L2 swizzle group share what their tiles have in common in the L2 cache: K and V of tiles of rows in a
// forward; the sum of dQ, Q and dO of tiles of keys in a backward. Bytes out of 50 MB, besides what streams past.
inline constexpr std::int64_t kForwardSectionBytes = 32 << 20, kBackwardSectionBytes = 24 << 20;

// As many as fit `section_bytes`, cut alike, and up to a quarter fewer where the last section would be less than half
// of the others: its tiles, long ones among them, would begin when most blocks have nothing left to do.
constexpr std::int64_t section_heads(std::int64_t heads, std::int64_t bytes_a_head, std::int64_t section_bytes) {
  if (heads < 1) return 1;
  const std::int64_t most = std::clamp<std::int64_t>(section_bytes / std::max<std::int64_t>(1, bytes_a_head), 1, heads);
  const std::int64_t sections = (heads + most - 1) / most, alike = (heads + sections - 1) / sections;
  for (std::int64_t section = alike; 4 * section >= 3 * alike; --section) {
    const std::int64_t last = heads - (heads - 1) / section * section;
    if (2 * last >= section) return section;
  }
  return alike;
}

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
