// One row of logits.
#pragma once

#include <cmath>

#include "ops/cpu/element.h"
#include "ops/cpu/exponential.h"
#include "ops/cpu/sum.h"

namespace strobe::ops {
namespace {  // every instruction set has its own copy

// log(sum exp(logit)).
template <class T>
Compute<T> log_sum_exp(const T* logits, std::int64_t count) {
  using C = Compute<T>;
  const C highest = highest_of<C>(count, [&](std::int64_t i) { return widened(logits[i]); });
  const C sum = sum_of<C>(count, [&](std::int64_t i) { return exponential(widened(logits[i]) - highest); });
  return highest + std::log(sum);
}

template <class T>
void cross_entropy_row_gradient(T* logits, std::int64_t count, std::int64_t target, Compute<T> log_sum,
                                Compute<T> scale) {
  for (std::int64_t i = 0; i < count; ++i) {
    const Compute<T> weight = exponential(widened(logits[i]) - log_sum);
    logits[i] = narrowed<T>((weight - (i == target ? 1 : 0)) * scale);
  }
}

}  // namespace
}  // namespace strobe::ops
