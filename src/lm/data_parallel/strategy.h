// Ways to exchange gradients, each three choices: how they are grouped, when a group is started, and who updates what;
// and the buckets that follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strobe::lm {

enum class Grouping { each, all, buckets };  // one call a parameter, one for all, one a bucket
enum class Start { after_backward, when_ready };
enum class Updates {
  all,             // every rank updates every parameter
  share,           // of summed gradients, a rank its share of each group; then values are gathered
  scattered_share  // the same, and a rank gets the sums of its share alone
};

struct Strategy {
  const char* name;
  Grouping grouping;
  Start start;
  Updates updates;
};

// naive, flat, overlap, bucketed, sharded, sharded-overlap, sharded-rs.
std::span<const Strategy> strategies();
std::vector<std::string> strategy_names();
// Throws Error(invalid_argument) with the valid names.
const Strategy& strategy_of(std::string_view name);

// --- buckets: gradients that one call exchanges ----------------------------------------------------------------------

// A parameter as ranks see it: elements of one run of memory, in the order in which a forward pass first uses them.
struct Tensor {
  std::int64_t first = 0, count = 0;
  int uses = 1;         // 2: tied, its gradient is final when both uses have added theirs
  bool frozen = false;  // never exchanged, never updated
};

struct Bucket {
  std::vector<std::size_t> tensors;   // places in the table, from the last: as backward makes their gradients final
  std::int64_t first = 0, count = 0;  // elements, side by side
};

// In the order in which backward completes them. Grouping::buckets: at most bucket_bytes of fp32 each, but a larger
// tensor has one of its own. Memory is never copied, so a bucket ends where the next tensor does not lie beside it or
// is frozen, that of Grouping::all too.
std::vector<Bucket> buckets_of(std::span<const Tensor> tensors, Grouping grouping, std::int64_t bucket_bytes);

}  // namespace strobe::lm
