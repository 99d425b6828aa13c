// The grid: kGridSize random attention problems, each drawn by a pseudo-random generator seeded with its index. A value
// is drawn for every axis: dtype, shape, mask, options, layouts. tests/attention/grid_test.cpp runs the cases and
// checks that every value of every axis occurs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/case.h"

namespace strobe::test {

inline constexpr std::int64_t kGridSize = 2400;

Case grid_case(std::int64_t index);

// Returns every axis value that the grid must contain, in the spelling of features().
std::vector<std::string> required_features();

}  // namespace strobe::test
