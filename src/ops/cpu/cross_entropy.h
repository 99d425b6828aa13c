// One row of logits.
#pragma once

#include <algorithm>
#include <cmath>

#include "ops/cpu/element.h"
#include "ops/cpu/sum.h"

namespace strobe::ops {

// log(sum exp(logit)).
template <class T>
Compute<T> log_sum_exp(const T* logits, std::int64_t count) {
  using C = Compute<T>;
  C highest = widened(logits[0]);
  for (std::int64_t i = 1; i < count; ++i) highest = std::max(highest, static_cast<C>(widened(logits[i])));
  const C sum = sum_of<C>(count, [&](std::int64_t i) { return std::exp(widened(logits[i]) - highest); });
  return highest + std::log(sum);
}

template <class T>
void cross_entropy_row_gradient(T* logits, std::int64_t count, std::int64_t target, Compute<T> log_sum,
                                Compute<T> scale) {
  for (std::int64_t i = 0; i < count; ++i) {
    const Compute<T> weight = std::exp(widened(logits[i]) - log_sum);
    logits[i] = narrowed<T>((weight - (i == target ? 1 : 0)) * scale);
  }
}

}  // namespace strobe::ops
