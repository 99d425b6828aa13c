// Inner loops of RMSNorm and LayerNorm: forward and backward of one row, and the parameter gradients. isa/table.h
// collects them.
#pragma once

#include <cmath>

#include "ops/cpu/element.h"
#include "ops/cpu/sum.h"
#include "ops/execution_context.h"

namespace strobe::ops {
namespace {  // separate copy per instruction set

// Computes y = x inverse weight and returns inverse = 1 / sqrt(mean(x^2) + eps).
template <class T>
Compute<T> rms_norm_row(const T* x, const Compute<T>* weight, T* y, std::int64_t width, Compute<T> eps) {
  using C = Compute<T>;
  const C squares = sum_of<C>(width, [&](std::int64_t i) { return widened(x[i]) * widened(x[i]); });
  const C inverse = 1 / std::sqrt(squares / static_cast<C>(width) + eps);
  for (std::int64_t i = 0; i < width; ++i) y[i] = narrowed<T>(widened(x[i]) * inverse * weight[i]);
  return inverse;
}

// Computes dx = inverse (g - n mean(g n)) with n = x inverse and g = dy weight.
template <class T>
void rms_norm_row_backward(const T* x, const Compute<T>* weight, Compute<T> inverse, const T* dy, T* dx, Into into,
                           std::int64_t width) {
  using C = Compute<T>;
  const C mean =
      sum_of<C>(width, [&](std::int64_t i) { return widened(dy[i]) * weight[i] * (widened(x[i]) * inverse); }) /
      static_cast<C>(width);
  for (std::int64_t i = 0; i < width; ++i) {
    const C gradient = inverse * (widened(dy[i]) * weight[i] - widened(x[i]) * inverse * mean);
    dx[i] = narrowed<T>(into == Into::sum ? widened(dx[i]) + gradient : gradient);
  }
}

// Adds the sum over rows of dy x inverse to columns [first, last) of dweight, in the order of the rows.
template <class T>
void rms_norm_weight_backward(const T* x, const Compute<T>* inverse, const T* dy, Compute<T>* dweight,
                              std::int64_t rows, std::int64_t width, std::int64_t first, std::int64_t last) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = first; i < last; ++i) {
      dweight[i] += widened(dy[r * width + i]) * (widened(x[r * width + i]) * inverse[r]);
    }
  }
}

// --- LayerNorm -------------------------------------------------------------------------------------------------------

// Computes y and statistics [2]: mean and 1 / sqrt(variance + eps). The variance is computed after subtracting the
// mean, so a row of large, nearly equal numbers does not lose digits to cancellation.
template <class T>
void layer_norm_row(const T* x, const Compute<T>* weight, const Compute<T>* bias, T* y, Compute<T>* statistics,
                    std::int64_t width, Compute<T> eps) {
  using C = Compute<T>;
  const C mean = sum_of<C>(width, [&](std::int64_t i) { return widened(x[i]); }) / static_cast<C>(width);
  const C squares = sum_of<C>(width, [&](std::int64_t i) { return (widened(x[i]) - mean) * (widened(x[i]) - mean); });
  const C inverse = 1 / std::sqrt(squares / static_cast<C>(width) + eps);
  for (std::int64_t i = 0; i < width; ++i) {
    y[i] = narrowed<T>((widened(x[i]) - mean) * inverse * weight[i] + bias[i]);
  }
  statistics[0] = mean;
  statistics[1] = inverse;
}

// Computes dx = inverse (g - mean(g) - n mean(g n)) with n = (x - mean) inverse and g = dy weight.
template <class T>
void layer_norm_row_backward(const T* x, const Compute<T>* weight, const Compute<T>* statistics, const T* dy, T* dx,
                             Into into, std::int64_t width) {
  using C = Compute<T>;
  const C mean = statistics[0], inverse = statistics[1];
  const C mean_g = sum_of<C>(width, [&](std::int64_t i) { return widened(dy[i]) * weight[i]; }) / static_cast<C>(width);
  const C mean_gn =
      sum_of<C>(width,
                [&](std::int64_t i) { return widened(dy[i]) * weight[i] * ((widened(x[i]) - mean) * inverse); }) /
      static_cast<C>(width);
  for (std::int64_t i = 0; i < width; ++i) {
    const C normed = (widened(x[i]) - mean) * inverse;
    const C gradient = inverse * (widened(dy[i]) * weight[i] - mean_g - normed * mean_gn);
    dx[i] = narrowed<T>(into == Into::sum ? widened(dx[i]) + gradient : gradient);
  }
}

// Computes dweight += dy (x - mean) inverse and dbias += dy for `count` columns of a row.
template <class T>
void layer_norm_parameters_backward(const T* x, const Compute<T>* statistics, const T* dy, Compute<T>* dweight,
                                    Compute<T>* dbias, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    dweight[i] += widened(dy[i]) * ((widened(x[i]) - statistics[0]) * statistics[1]);
    dbias[i] += widened(dy[i]);
  }
}

}  // namespace
}  // namespace strobe::ops
