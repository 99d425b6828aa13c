// Tiles of the Hopper forward as kernels are made for them.
#pragma once

#include <cstdint>
#include <limits>

namespace strobe::cuda::sm90 {

struct HeadDims {
  int d, dv;  // of q and k, of v and o

  friend constexpr bool operator==(const HeadDims&, const HeadDims&) = default;
};

// Two to four warpgroups multiply, one warp more loads for all of them.
struct ForwardShape {
  int consumers;  // warpgroups that multiply, each with 64 rows
  int keys;       // of a tile
  int stages;     // tiles of K, and of V, in shared memory
  int q_stages;   // tiles of Q likewise: with two the next one comes while the last is worked on
  bool passes;    // whether a warpgroup lets tiles of keys pass that the block's other rows alone use
  bool splits;    // whether the keys of a row may be split over blocks; some shapes have no register left for that

  friend constexpr bool operator==(const ForwardShape&, const ForwardShape&) = default;
};

// Of ForwardRule::least_keys: a rule for problems whose keys are split, no others.
inline constexpr std::int64_t kSplitsOnly = std::numeric_limits<std::int64_t>::max();

// What a problem gets: of the rules for its head dimensions the first that applies; where its keys are to be split, the
// first whose shape does that.
struct ForwardRule {
  HeadDims dims;
  bool uneven;              // rows see different numbers of keys: a mask, or lengths
  std::int64_t least_keys;  // of a sequence
  ForwardShape shape;
};

}  // namespace strobe::cuda::sm90
