// A range of elements to fp32 and back, and onto fp32.
#pragma once

#include "ops/cpu/element.h"
#include "ops/place.h"

namespace strobe::ops {
namespace {  // every instruction set has its own copy

template <class T>
void widen_range(const T* x, float* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = widened(x[i]);
}

// y += x
template <class T>
void add_range(const T* x, float* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] += widened(x[i]);
}

// Sums are rounded once.
template <class T>
void narrow_range(const float* x, T* y, Into into, std::int64_t count) {
  if (into == Into::set) {
    for (std::int64_t i = 0; i < count; ++i) y[i] = narrowed<T>(x[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) y[i] = narrowed<T>(widened(y[i]) + x[i]);
  }
}

}  // namespace
}  // namespace strobe::ops
