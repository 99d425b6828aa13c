// Sums and maxima in a fixed order that compilers can vectorize, and the number of tasks of a loop. Used by the CPU
// operations.
#pragma once

#include <cstdint>

namespace strobe::ops {
namespace {  // separate copy per instruction set

// Returns the sum of term(i) over [0, count), accumulated in 16 lanes that are finally added pairwise.
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

// Returns the largest term(i) over [0, count); count must be at least 1. The result is NaN if term(0) is NaN; other
// NaNs are ignored.
template <class C, class Term>
C highest_of(std::int64_t count, Term&& term) {
  constexpr std::int64_t kLanes = 16;
  C lane[kLanes];
  for (C& one : lane) one = term(0);
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t n = 0; n < kLanes; ++n) lane[n] = lane[n] < term(i + n) ? term(i + n) : lane[n];
  }
  for (; i < count; ++i) lane[0] = lane[0] < term(i) ? term(i) : lane[0];
  C highest = lane[0];
  for (const C one : lane) highest = highest < one ? one : highest;
  return highest;
}

// Returns the number of tasks for `count` items with at most `share` items per task.
constexpr std::int64_t tasks_of(std::int64_t count, std::int64_t share) { return (count + share - 1) / share; }

}  // namespace
}  // namespace strobe::ops
