// Environment variables that select the cases of the grid (grid.h) that a test runs:
//   STROBE_TEST_CASES=<n>      about n cases, spread over the grid
//   STROBE_TEST_CASE=<index>   one case
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "support/grid.h"

namespace strobe::test {

inline std::int64_t number_from(const char* variable, std::int64_t fallback) {
  const char* text = std::getenv(variable);
  return text && *text ? std::strtoll(text, nullptr, 10) : fallback;
}

inline bool selected(std::int64_t index) {
  const std::int64_t only = number_from("STROBE_TEST_CASE", -1);
  if (only >= 0) return index == only;
  const std::int64_t limit = std::min(number_from("STROBE_TEST_CASES", kGridSize), kGridSize);
  return (index + 1) * limit / kGridSize != index * limit / kGridSize;
}

}  // namespace strobe::test
