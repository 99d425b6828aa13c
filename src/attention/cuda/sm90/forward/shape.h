// Tile shapes of the Hopper forward kernels, and the problem properties that select one. Used by config.h and rules.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strobe::cuda::sm90 {

struct HeadDims {
  int d, dv;  // d: q and k; dv: v and o

  friend constexpr bool operator==(const HeadDims&, const HeadDims&) = default;
};

// One to four consumer warpgroups and one producer warpgroup.
struct ForwardShape {
  int consumers;        // consumer warpgroups; each has 64 rows of the tile unless `shares`
  int keys;             // rows of K and V per tile
  int stages;           // pipeline stages of K, and of V
  int q_stages;         // stages of Q; with two, the next row tile's Q is prefetched
  bool passes;          // a warpgroup skips key tiles that only other rows of the block see
  bool shares = false;  // two warpgroups share 64 rows and alternate on key tiles
  bool splits = false;  // the keys of a row may be split over blocks (split-K)

  friend constexpr bool operator==(const ForwardShape&, const ForwardShape&) = default;
};

constexpr int rows_of(const ForwardShape& shape) { return 64 * (shape.shares ? 1 : shape.consumers); }

// Selects the shape for problems that fill the GPU. The first rule that matches head dimensions, `uneven` and number of
// keys applies.
struct ForwardRule {
  HeadDims dims;
  bool uneven;              // rows may see different numbers of keys, because of a mask or of lengths
  std::int64_t least_keys;  // smallest max_seqlen_k to which the rule applies
  ForwardShape shape;
};

// Problem and GPU properties that select the tiles.
struct ForwardFacts {
  int d = 0, dv = 0;
  std::int64_t heads = 0;  // query heads of all sequences
  std::int64_t max_seqlen_q = 0, max_seqlen_k = 0;
  std::int64_t window = 0;  // keys that a row sees in a window bounded on both sides; 0: no such window
  int multiprocessors = 1;
  bool uneven = false;  // as in ForwardRule
  bool drops = false;   // has dropout
  bool alibi = false;   // has ALiBi
  bool bias = false;    // has a bias
};

struct ForwardConfig {
  HeadDims dims{};  // padded head dimensions
  ForwardShape shape{};
  std::size_t shared_bytes = 0;
  int splits = 1;  // split-K: blocks per row tile
};

}  // namespace strobe::cuda::sm90
