// Defines the strategies of gradient exchange, and the buckets of gradients. A strategy makes three
// choices: how gradients are grouped, when the exchange of a group starts, and which parameters a rank updates.
// DataParallel and `strobe plan` use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strobe::lm {

enum class Grouping { each, all, buckets };  // one call per parameter, one for all, one per bucket
enum class Start { after_backward, when_ready };
enum class Updates {
  all,             // every rank updates every parameter
  share,           // ZeRO-1: a rank updates its share of each bucket; new values are all-gathered
  scattered_share  // like `share`, but gradients are reduce-scattered: a rank receives only its share
};

struct Strategy {
  const char* name;
  Grouping grouping;
  Start start;
  Updates updates;
};

// The strategies naive, flat, overlap, bucketed, sharded, sharded-overlap and sharded-rs.
std::span<const Strategy> strategies();
std::vector<std::string> strategy_names();
// Returns the strategy of this name. Throws Error(invalid_argument) with the valid names.
const Strategy& strategy_of(std::string_view name);

// --- buckets: gradients that one call exchanges ----------------------------------------------------------------------

// A parameter, as a range of the contiguous memory of all parameters. Tensors are in the order in which a forward pass
// first uses them.
struct Tensor {
  std::int64_t first = 0, count = 0;
  int uses = 1;         // 2 for a tied parameter, whose gradient is the sum over both uses
  bool frozen = false;  // neither exchanged nor updated
};

struct Bucket {
  std::vector<std::size_t> tensors;   // indices, descending: the order in which backward completes the tensors
  std::int64_t first = 0, count = 0;  // range of elements
};

// Returns the buckets in the order in which backward completes them. With Grouping::buckets each bucket has at most
// bucket_bytes of fp32; a larger tensor gets its own bucket. A bucket is contiguous, so that gradients need no copy:
// frozen tensors and gaps separate buckets, even with Grouping::all.
std::vector<Bucket> buckets_of(std::span<const Tensor> tensors, Grouping grouping, std::int64_t bucket_bytes);

}  // namespace strobe::lm
