// Tiles of a backward call as its kernels and its workspace count them, whatever their elements are.
#pragma once

#include <cstdint>

#include "attention/cuda/params.h"
#include "core/divide.h"

namespace strobe::cuda::sm90 {

// Of rows, or of keys. A packed batch has one more for every sequence of a head: it may begin within a tile. `p` is
// SequenceParams or, before there are any, the Problem.
struct TileCount {
  std::int64_t of_sequence;  // the longest
  std::int64_t of_head;      // all sequences of a packed batch
  std::int64_t all;          // places in the workspace

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
