// Tiles of the Hopper forward as kernels are made for them, and problems that get them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strobe::cuda::sm90 {

struct HeadDims {
  int d, dv;  // of q and k, of v and o

  friend constexpr bool operator==(const HeadDims&, const HeadDims&) = default;
};

// One to four warpgroups multiply, one warp more loads for all of them.
struct ForwardShape {
  int consumers;        // warpgroups that multiply, each with 64 rows of its own
  int keys;             // of a tile
  int stages;           // tiles of K, and of V, in shared memory
  int q_stages;         // tiles of Q likewise: with two the next one comes while the last is worked on
  bool passes;          // whether a warpgroup lets tiles of keys pass that the block's other rows alone use
  bool shares = false;  // whether two warpgroups have the same 64 rows, and tiles of keys in turns
  bool splits = false;  // whether a row's keys may be split over blocks

  friend constexpr bool operator==(const ForwardShape&, const ForwardShape&) = default;
};

constexpr int rows_of(const ForwardShape& shape) { return 64 * (shape.shares ? 1 : shape.consumers); }

// What a problem gets that fills the card: of the rules for its head dimensions the first that applies.
struct ForwardRule {
  HeadDims dims;
  bool uneven;              // rows see different numbers of keys: a mask, or lengths
  std::int64_t least_keys;  // of a sequence
  ForwardShape shape;
};

// What the choice of tiles depends on.
struct ForwardFacts {
  int d = 0, dv = 0;
  std::int64_t heads = 0;  // of all sequences
  std::int64_t max_q = 0, max_k = 0;
  std::int64_t window = 0;  // keys that a row sees at most; 0: as many as there are
  int multiprocessors = 1;
  bool uneven = false;  // as in ForwardRule
  bool drops = false;
};

struct ForwardConfig {
  HeadDims dims{};  // padded
  ForwardShape shape{};
  std::size_t shared_bytes = 0;
  int splits = 1;  // of the keys, each for a block of its own
};

}  // namespace strobe::cuda::sm90
