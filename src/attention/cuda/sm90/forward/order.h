// How the tiles of a forward call are handed out, whatever their elements are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/cuda/params.h"
#include "attention/cuda/sm90/device/tile_order.h"

namespace strobe::cuda::sm90 {

inline constexpr std::size_t kForwardCounterBytes = 256;  // tiles that take different times are handed out by a counter

// In turn; with a counter in `next`, by that.
inline TileOrder forward_order(const SequenceParams& p, int tile_rows, int splits) {
  TileOrder order;
  order.heads = static_cast<std::uint32_t>(p.heads_q);
  order.tiles = static_cast<std::uint32_t>((p.max_q + tile_rows - 1) / tile_rows * splits);
  order.units = static_cast<std::uint32_t>(p.batch) * order.heads;
  return order;
}

// Whether tiles are handed out by a counter, which a call must clear first: not where every block has one at most.
inline bool by_counter(const TileOrder& order, bool uneven, int multiprocessors) {
  return uneven && std::int64_t{order.units} * order.tiles > multiprocessors;
}

// Query heads whose K and V the cache holds.
inline std::uint32_t forward_section(const SequenceParams& p, int element_bytes) {
  const std::int64_t bytes = std::int64_t{p.max_k} * (p.d + p.dv_dim) * element_bytes;
  return static_cast<std::uint32_t>(section_heads(std::int64_t{p.batch} * p.heads_kv, bytes, kForwardSectionBytes) *
                                    p.group);
}

}  // namespace strobe::cuda::sm90
