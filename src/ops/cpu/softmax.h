// Softmax of one row of scores, and its gradient.
#pragma once

#include "ops/cpu/element.h"
#include "ops/cpu/exponential.h"
#include "ops/cpu/sum.h"

namespace strobe::ops {
namespace {  // every instruction set has its own copy

// In place: exp(score) / sum exp(score). At least one score.
template <class T>
void softmax_row(T* scores, std::int64_t count) {
  using C = Compute<T>;
  const C highest = highest_of<C>(count, [&](std::int64_t i) { return widened(scores[i]); });
  const C sum = sum_of<C>(count, [&](std::int64_t i) { return exponential(widened(scores[i]) - highest); });
  const C inverse = 1 / sum;
  for (std::int64_t i = 0; i < count; ++i) {
    scores[i] = narrowed<T>(exponential(widened(scores[i]) - highest) * inverse);
  }
}

// gradient: of the probabilities, then of the scores.
template <class T>
void softmax_row_backward(const T* probabilities, T* gradient, std::int64_t count) {
  using C = Compute<T>;
  const C delta = sum_of<C>(count, [&](std::int64_t i) { return widened(probabilities[i]) * widened(gradient[i]); });
  for (std::int64_t i = 0; i < count; ++i) {
    gradient[i] = narrowed<T>(widened(probabilities[i]) * (widened(gradient[i]) - delta));
  }
}

}  // namespace
}  // namespace strobe::ops
