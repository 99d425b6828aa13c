// Assertions that compare kernels with the float64 oracle within an absolute limit, for tests of single shapes and
// values.
#pragma once

#include <string>
#include <vector>

#include "support/data.h"
#include "support/run.h"

namespace strobe::test {

// Expects every output to be finite, infinite or NaN exactly where the oracle's is. Differences may be at most `limit`
// * unit_roundoff() * m, where m is the largest magnitude in the oracle's output, at least 1.
void expect_near(const Case& c, const Results& reference, const Results& results, double limit, const std::string& who);

// The kernels that check() runs. all: `reference`, `standard` and flash2. isolating: `reference` and flash2, in which a
// NaN or infinity affects only the rows that use it. `frugal` computes the bits of `standard` and is not run.
enum class Kernels { all, isolating };

// Returns this machine's instruction sets that have separate kernels for `dtype`. The other sets share the kernels of a
// smaller set (for fp16, all sets above avx512 do); the grid covers them too.
std::vector<std::string> isas_for(DType dtype);

// Runs the kernels (flash2 once per set of isas_for()) and expects their outputs near the oracle's.
void check(const Data& data, Kernels kernels, double limit = 64);

}  // namespace strobe::test
