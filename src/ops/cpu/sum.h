// Sums in a fixed order that compilers can vectorise, and how loops are cut into tasks.
#pragma once

#include <cstdint>

namespace strobe::ops {

// The sum of term(i) over [0, count), in 16 lanes that are added up in pairs.
template <class C, class Term>
C sum_of(std::int64_t count, Term&& term) {
  constexpr std::int64_t kLanes = 16;
  C lane[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t n = 0; n < kLanes; ++n) lane[n] += term(i + n);
  }
  for (; i < count; ++i) lane[i % kLanes] += term(i);
  for (std::int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::int64_t n = 0; n < width; ++n) lane[n] += lane[n + width];
  }
  return lane[0];
}

// Tasks of at most `share` each.
constexpr std::int64_t tasks_of(std::int64_t count, std::int64_t share) { return (count + share - 1) / share; }

}  // namespace strobe::ops
