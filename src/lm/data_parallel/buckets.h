// Which gradients are exchanged in one call: a pure function of the parameters, the grouping and the bucket's size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lm/data_parallel/strategy.h"

namespace strobe::lm {

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
