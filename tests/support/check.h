// Assertions on the kernels against the oracle with an absolute limit, for tests of single shapes and values.
#pragma once

#include <string>

#include "support/data.h"
#include "support/run.h"

namespace strobe::test {

// Every output within `limit` units of roundoff of the largest value (or of 1), and finite exactly where the oracle is.
void expect_near(const Case& c, const Results& reference, const Results& results, double limit, const std::string& who);

enum class Kernels { all, isolating };  // isolating: those that keep a value that is not finite to the rows that use it

// Runs the kernels, flash2 on every instruction set of this machine, and expects them near the oracle.
void check(const Data& data, Kernels kernels, double limit = 64);

}  // namespace strobe::test
