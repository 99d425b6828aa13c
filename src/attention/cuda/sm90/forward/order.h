// Tile scheduling of a forward call, for all element types. Used by the launches of forward/ and forward_fp32/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/cuda/params.h"
#include "attention/cuda/sm90/device/tile_order.h"

namespace strobe::cuda::sm90 {

inline constexpr std::size_t kForwardCounterBytes = 256;  // for the work counter

// Static order of the tiles. The caller sets `next` and `section` to use a work counter instead.
inline TileOrder forward_order(const SequenceParams& p, int tile_rows, int splits) {
  TileOrder order;
  order.heads = static_cast<std::uint32_t>(p.heads_q);
  order.tiles = static_cast<std::uint32_t>((p.max_q + tile_rows - 1) / tile_rows * splits);
  order.units = static_cast<std::uint32_t>(p.batch) * order.heads;
  return order;
}

// True if tiles come from a work counter, which the caller must clear first. A static order suffices if all tiles take
// equally long or each block has at most one tile.
inline bool by_counter(const TileOrder& order, bool uneven, int multiprocessors) {
  return uneven && std::int64_t{order.units} * order.tiles > multiprocessors;
}

// Query heads per L2 swizzle group: those whose K and V fit kForwardSectionBytes.
inline std::uint32_t forward_section(const SequenceParams& p, int element_bytes) {
  const std::int64_t bytes = std::int64_t{p.max_k} * (p.d + p.dv_dim) * element_bytes;
  return static_cast<std::uint32_t>(section_heads(std::int64_t{p.batch} * p.heads_kv, bytes, kForwardSectionBytes) *
                                    p.group);
}

}  // namespace strobe::cuda::sm90
