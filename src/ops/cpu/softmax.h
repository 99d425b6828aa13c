// Inner loops of softmax over a row of scores, of cross-entropy over a row of logits, and of their gradients.
// isa/table.h collects them.
#pragma once

#include <cmath>

#include "ops/cpu/element.h"
#include "ops/cpu/exponential.h"
#include "ops/cpu/sum.h"

namespace strobe::ops {
namespace {  // separate copy per instruction set

// Softmax in place: exp(score) / sum of exp(score). Requires at least one score.
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

// Replaces the gradient with respect to the probabilities by the gradient with respect to the scores.
template <class T>
void softmax_row_backward(const T* probabilities, T* gradient, std::int64_t count) {
  using C = Compute<T>;
  const C delta = sum_of<C>(count, [&](std::int64_t i) { return widened(probabilities[i]) * widened(gradient[i]); });
  for (std::int64_t i = 0; i < count; ++i) {
    gradient[i] = narrowed<T>(widened(probabilities[i]) * (widened(gradient[i]) - delta));
  }
}

// --- cross-entropy ---------------------------------------------------------------------------------------------------

// Returns log(sum of exp(logit)).
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
