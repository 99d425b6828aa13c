// Assertions that compare kernels with the float64 oracle within an absolute limit, for tests of single shapes and
// values.
#pragma once

#include <string>
#include <vector>

#include "support/data.h"
#include "support/run.h"

namespace strobe::test {

// Expects every output to be finite exactly where the oracle's is. Differences may be at most `limit` * unit_roundoff()
// * the largest value, or 1 if that is larger.
void expect_near(const Case& c, const Results& reference, const Results& results, double limit, const std::string& who);

// all: every CPU kernel. isolating: only kernels in which a NaN or infinity affects only the rows that use it, which
// are all except `standard` and `frugal`.
enum class Kernels { all, isolating };

// Returns this machine's instruction sets that have separate kernels for `dtype`. The other sets share the kernels of a
// smaller set (for fp16, all sets above avx512 do); the grid covers them too.
std::vector<std::string> isas_for(DType dtype);

// Runs the kernels (flash2 once per set of isas_for()) and expects their outputs near the oracle's.
void check(const Data& data, Kernels kernels, double limit = 64);

}  // namespace strobe::test
