// A range of elements.
#pragma once

#include <cstdint>

#include "ops/cpu/element.h"
#include "ops/cpu/exponential.h"

namespace strobe::ops {
namespace {  // every instruction set has its own copy

template <class T>
void swiglu_range(const T* a, const T* b, T* y, std::int64_t count) {
  using C = Compute<T>;
  for (std::int64_t i = 0; i < count; ++i) {
    const C x = widened(a[i]);
    y[i] = narrowed<T>(x / (1 + exponential(-x)) * widened(b[i]));
  }
}

// silu'(x) = s + x s (1 - s), s = 1 / (1 + exp(-x)).
template <class T>
void swiglu_range_backward(const T* a, const T* b, const T* dy, T* da, T* db, std::int64_t count) {
  using C = Compute<T>;
  for (std::int64_t i = 0; i < count; ++i) {
    const C x = widened(a[i]), gate = widened(b[i]), gradient = widened(dy[i]);
    const C s = 1 / (1 + exponential(-x));
    da[i] = narrowed<T>(gradient * gate * (s + x * s * (1 - s)));
    db[i] = narrowed<T>(gradient * x * s);
  }
}

}  // namespace
}  // namespace strobe::ops
