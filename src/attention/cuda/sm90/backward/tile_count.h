// Number of row and key tiles of a backward call, used by kernels and workspaces of all element types.
#pragma once

#include <cstdint>

#include "attention/cuda/params.h"
#include "core/divide.h"

namespace strobe::cuda::sm90 {

// Number of row tiles or key tiles. Sequences of a packed batch may begin within a tile, so each head has one extra
// tile per sequence. Sizes: SequenceParams, or Problem while planning.
struct TileCount {
  std::int64_t of_sequence;  // tiles of the longest sequence
  std::int64_t of_head;      // tiles of one head; valid in a packed batch only
  std::int64_t all;          // tiles of all heads; the workspace has this many

  template <class Sizes>
  TileCount(const Sizes& p, int tile, std::int64_t heads, std::int64_t longest, std::int64_t total)
      : of_sequence(ceil_div(longest, tile)),
        of_head(total / tile + p.batch),
        all(heads * (p.packed ? of_head : p.batch * of_sequence)) {}
};

template <class Sizes>
TileCount row_tiles(const Sizes& p, int rows) {
  return {p, rows, p.heads_q, p.max_seqlen_q, p.total_q};
}
inline TileCount key_tiles(const SequenceParams& p, int keys) {
  return {p, keys, p.heads_kv, p.max_seqlen_k, p.total_k};
}

}  // namespace strobe::cuda::sm90
