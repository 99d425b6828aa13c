// Tile scheduling of a forward call, for all element types. Used by the launches of forward/ and forward_fp32/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/cuda/params.h"
#include "attention/cuda/sm90/device/tile_scheduler.h"

namespace strobe::cuda::sm90 {

inline constexpr std::size_t kForwardCounterBytes = 256;  // for the work counter

// Returns a scheduler with a static order of the tiles. To use a work counter instead, the caller sets `next` and
// `l2_swizzle`.
inline TileScheduler forward_scheduler(const SequenceParams& p, int tile_rows, int splits) {
  TileScheduler scheduler;
  scheduler.heads = static_cast<std::uint32_t>(p.heads_q);
  scheduler.tiles = static_cast<std::uint32_t>((p.max_seqlen_q + tile_rows - 1) / tile_rows * splits);
  scheduler.units = static_cast<std::uint32_t>(p.batch) * scheduler.heads;
  return scheduler;
}

// True if tiles come from a work counter, which the caller must clear first. A static order suffices if all tiles take
// equally long or each block has at most one tile.
inline bool uses_work_counter(const TileScheduler& scheduler, bool uneven, int multiprocessors) {
  return uneven && std::int64_t{scheduler.units} * scheduler.tiles > multiprocessors;
}

// Query heads per L2 swizzle group: those whose K and V fit kForwardL2SwizzleBytes.
inline std::uint32_t forward_l2_swizzle(const SequenceParams& p, int element_bytes) {
  const std::int64_t bytes = std::int64_t{p.max_seqlen_k} * (p.d + p.dv_dim) * element_bytes;
  return static_cast<std::uint32_t>(
      l2_swizzle_heads(std::int64_t{p.batch} * p.heads_kv, bytes, kForwardL2SwizzleBytes) * p.group);
}

}  // namespace strobe::cuda::sm90
