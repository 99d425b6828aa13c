// Assertions on the kernels against the oracle with an absolute limit, for tests of single shapes and values.
#pragma once

#include <string>
#include <vector>

#include "support/data.h"
#include "support/run.h"

namespace strobe::test {

// Every output within `limit` units of roundoff of the largest value (or of 1), and finite exactly where the oracle is.
void expect_near(const Case& c, const Results& reference, const Results& results, double limit, const std::string& who);

enum class Kernels { all, isolating };  // isolating: those that keep a value that is not finite to the rows that use it

// The instruction sets of this machine that have inner code of their own for a type: the others take that of a lesser
// one, as fp16 does on all above avx512. The grid runs on those too.
std::vector<std::string> isas_for(DType dtype);

// Runs the kernels, flash2 on each of isas_for(), and expects them near the oracle.
void check(const Data& data, Kernels kernels, double limit = 64);

}  // namespace strobe::test
