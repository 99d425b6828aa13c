// Explains cells of `strobe compare` without a partner by the keys in which they differ.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/result.h"

namespace strobe::report {

// Returns "threads: 2 in A, 1 in B; dtype: fp16 in A, fp32 in B": the keys without a value common to A and B. If every
// key has a common value, returns the keys in which A's first cell differs from the nearest cell of B.
std::string difference_text(std::span<const Result* const> a, std::span<const Result* const> b);

// "threads 1 instead of 2": the fewest keys in which a cell of `others` differs from `one`. `others` must not be empty.
std::string nearest_text(const Result& one, std::span<const Result* const> others);

}  // namespace strobe::report
