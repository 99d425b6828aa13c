// Number of tiles of a backward call, for kernels and workspace of all element types.
#pragma once

#include <cstdint>

#include "attention/cuda/params.h"
#include "core/divide.h"

namespace strobe::cuda::sm90 {

// Row tiles or key tiles. Sequences of a packed batch may begin within a tile, so each head has an extra tile per
// sequence. `p` is SequenceParams or, before they exist, the Problem.
struct TileCount {
  std::int64_t of_sequence;  // longest sequence
  std::int64_t of_head;      // packed batch: all sequences
  std::int64_t all;          // tiles in the workspace

  template <class Sizes>
  TileCount(const Sizes& p, int tile, std::int64_t heads, std::int64_t longest, std::int64_t total)
      : of_sequence(ceil_div(longest, tile)),
        of_head(total / tile + p.batch),
        all(heads * (p.packed ? of_head : p.batch * of_sequence)) {}
};

template <class Sizes>
TileCount row_tiles(const Sizes& p, int rows) {
  return {p, rows, p.heads_q, p.max_q, p.total_q};
}
inline TileCount key_tiles(const SequenceParams& p, int keys) { return {p, keys, p.heads_kv, p.max_k, p.total_k}; }

}  // namespace strobe::cuda::sm90
