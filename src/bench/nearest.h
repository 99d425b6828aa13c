// Finds the nearest smaller cases that fit in memory, for the out-of-memory message. runner.cpp calls it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/case.h"

namespace strobe::bench {

struct SmallerCase {
  AttentionCase one;
  double work;  // nominal FLOPs as a share of the original's
};

using Fits = std::function<bool(const AttentionCase&)>;

// Returns, for each axis (batch, heads, sequence), the largest smaller size that fits while the other axes are
// unchanged. Sorted by decreasing work; ties keep the order of the axes. If no single axis suffices, tries again with
// batch 1, then also with the minimum number of heads. Keeps the head dimension, the heads per KV head (unless there is
// only one KV head) and the ratio of queries to keys. Requires that fits() is monotonic: if a size fits, all smaller
// sizes fit.
std::vector<SmallerCase> nearest_that_fit(const AttentionCase& one, const Fits& fits);

// Returns the flags that change `from` to `to`: "--num_heads 8 --emb_dim 512".
std::string flags_between(const AttentionCase& from, const AttentionCase& to);

// Returns nearest_that_fit() as text: "fits: --seq_len 981 (92 % of the work), --batch_size 28 (88 %), --dtype bf16".
// bf16 is listed if it fits instead of fp32.
std::string advice_on(const AttentionCase& one, const Fits& fits);

}  // namespace strobe::bench
