// The generated grid. Case `index` is a deterministic pseudo-random choice on every axis of the feature list.
// tests/attention/grid_test.cpp runs the cases and proves that every value of every axis occurs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/case.h"

namespace strobe::test {

inline constexpr std::int64_t kGridSize = 2400;

Case grid_case(std::int64_t index);

// Returns every axis value that the grid must contain, spelled as features() does.
std::vector<std::string> required_features();

}  // namespace strobe::test
