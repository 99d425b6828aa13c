// The keys by which cells differ, for cells of `strobe compare` that have no partner.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/result.h"

namespace strobe::report {

// "threads: 2 in A, 1 in B; dtype: fp16 in A, fp32 in B": each key of which A and B have no value in common. If there
// is none, the keys by which A's first cell differs from the nearest of B.
std::string difference_text(std::span<const Result* const> a, std::span<const Result* const> b);

// "threads 1 instead of 2": the fewest keys by which a cell of `others` differs from `one`. `others` is not empty.
std::string nearest_text(const Result& one, std::span<const Result* const> others);

}  // namespace strobe::report
