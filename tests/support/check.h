// Assertions on kernels: comparison with the float64 oracle within an absolute limit, for tests of single shapes and
// values.
#pragma once

#include <string>
#include <vector>

#include "support/data.h"
#include "support/run.h"

namespace strobe::test {

// Expects every output within `limit` units of roundoff of the largest value (at least 1). Values must be finite
// exactly where the oracle's are.
void expect_near(const Case& c, const Results& reference, const Results& results, double limit, const std::string& who);

// isolating: kernels in which a value that is not finite affects only the rows that use it
enum class Kernels { all, isolating };

// Returns the instruction sets of this machine that have separate kernels for a type. The other sets use the kernels of
// a lesser set; for fp16 these are all sets above avx512. The grid runs on those too.
std::vector<std::string> isas_for(DType dtype);

// Runs the kernels (flash2 once per set of isas_for()) and expects their outputs near the oracle's.
void check(const Data& data, Kernels kernels, double limit = 64);

}  // namespace strobe::test
