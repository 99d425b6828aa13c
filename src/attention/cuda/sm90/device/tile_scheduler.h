// Persistent tile scheduler: order in which the blocks process the tiles of all heads. If all tiles take equally long,
// each block takes every gridDim-th tile. Otherwise each block that becomes free takes the next tile from a work
// counter; the longest tiles come first.
#pragma once

#include <algorithm>
#include <cstdint>

namespace strobe::cuda::sm90 {

// L2 budgets per L2 swizzle group. The heads of a group are processed together, so that the data that their tiles share
// stays in the L2 cache. Row tiles of a forward share K and V; key tiles of a backward share the fp32 dQ, Q and dO. The
// cache has 50 MB; the rest is for streamed data.
inline constexpr std::int64_t kForwardL2SwizzleBytes = 32 << 20, kBackwardL2SwizzleBytes = 24 << 20;

// Heads per L2 swizzle group: as many as fit `l2_swizzle_bytes`, in groups of equal size. A group has up to a quarter
// fewer heads if the last group would otherwise have less than half of the heads of the others. The tiles of such a
// small group, long ones included, would start when most blocks are already idle.
constexpr std::int64_t l2_swizzle_heads(std::int64_t heads, std::int64_t bytes_per_head,
                                        std::int64_t l2_swizzle_bytes) {
  if (heads < 1) return 1;
  const std::int64_t most =
      std::clamp<std::int64_t>(l2_swizzle_bytes / std::max<std::int64_t>(1, bytes_per_head), 1, heads);
  const std::int64_t l2_swizzles = (heads + most - 1) / most, alike = (heads + l2_swizzles - 1) / l2_swizzles;
  for (std::int64_t l2_swizzle = alike; 4 * l2_swizzle >= 3 * alike; --l2_swizzle) {
    const std::int64_t last = heads - (heads - 1) / l2_swizzle * l2_swizzle;
    if (2 * last >= l2_swizzle) return l2_swizzle;
  }
  return alike;
}

struct WorkTile {
  int b, head, tile;  // b < 0: no more tiles
};

struct TileScheduler {
  std::uint32_t heads = 1, tiles = 0;  // heads per sequence; row tiles per head, times key splits
  std::uint32_t units = 0;             // batch * heads; units * tiles fits 31 bits
  // Units (heads of a sequence) per L2 swizzle group: the L2 cache holds the shared data of this many. The tiles of a
  // group are processed together, the last tile of every unit first.
  std::uint32_t l2_swizzle = 1;
  // Work counter, starts at zero; counts tiles taken after each block's first. Null: static order.
  std::uint32_t* next = nullptr;

#if defined(__CUDACC__)
  // Returns the index of this block's n-th tile. Called by one thread; may issue an atomic on global memory.
  __device__ __forceinline__ std::uint32_t index(std::uint32_t n) const {
    if (n == 0 || !next) return n * gridDim.x + blockIdx.x;
    return gridDim.x + atomicAdd(next, 1u);
  }

  __device__ __forceinline__ WorkTile at(std::uint32_t index) const {
    if (index >= units * tiles) return {-1, 0, 0};
    const std::uint32_t first = index / (l2_swizzle * tiles) * l2_swizzle;
    const std::uint32_t here = min(l2_swizzle, units - first);
    const std::uint32_t rest = index - first * tiles;
    const std::uint32_t unit = first + rest % here;
    return {static_cast<int>(unit / heads), static_cast<int>(unit % heads), static_cast<int>(tiles - 1 - rest / here)};
  }
#endif
};

#if defined(__CUDACC__)
// Store or load a WorkTile in shared memory, 16 bytes.
__device__ __forceinline__ void store_work_tile(std::uint32_t to, const WorkTile& work_tile) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %3};" ::"r"(to), "r"(work_tile.b), "r"(work_tile.head),
               "r"(work_tile.tile)
               : "memory");
}
__device__ __forceinline__ WorkTile load_work_tile(std::uint32_t from) {
  WorkTile work_tile;
  [[maybe_unused]] int unused;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(work_tile.b), "=r"(work_tile.head), "=r"(work_tile.tile), "=r"(unused)
               : "r"(from)
               : "memory");
  return work_tile;
}
#endif

}  // namespace strobe::cuda::sm90
