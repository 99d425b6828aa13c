// The nearest cases that fit in memory, for the message of one that does not. runner.cpp calls.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/case.h"

namespace strobe::bench {

struct SmallerCase {
  Case one;
  double work;  // share of the original's nominal FLOPs; the distance is 1 - work
};

using Fits = std::function<bool(const Case&)>;

// For each axis (batch, heads, sequence) the largest smaller value that fits, the other axes unchanged. The nearest
// comes first; of two with equal work the one of the earlier axis. If no axis is enough by itself, the batch is 1, then
// also the heads are the fewest. Head dimension and heads per KV head stay, and so does the ratio of queries to keys.
// A case with more of an axis must not fit where one with less does not.
std::vector<SmallerCase> nearest_that_fit(const Case& one, const Fits& fits);

// The flags that turn `from` into `to`: "--num_heads 8 --emb_dim 512".
std::string flags_between(const Case& from, const Case& to);

// "fits: --seq_len 981 (92 % of the work), --batch_size 28 (88 %)", nearest first.
std::string advice_on(const Case& one, const Fits& fits);

}  // namespace strobe::bench
