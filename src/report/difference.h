// Finds the configuration keys in which cells of two files differ, to explain why `strobe compare` cannot match them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/result.h"

namespace strobe::report {

// Returns "threads: 2 in A, 1 in B; dtype: fp16 in A, fp32 in B" for the keys that have no value common to A and B. If
// there are none, lists the keys in which A's first cell differs from the nearest cell of B.
std::string difference_text(std::span<const Result* const> a, std::span<const Result* const> b);

// Returns the differences between `one` and the cell of `others` with the fewest differing keys: "threads 1 instead of
// 2", where 1 is the other cell's value. `others` must not be empty.
std::string nearest_text(const Result& one, std::span<const Result* const> others);

}  // namespace strobe::report
