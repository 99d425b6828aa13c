// Inner loop of AdamW over a range of elements. isa/table.h collects it.
#pragma once

#include <cmath>
#include <cstdint>

#include "ops/optimizer.h"

namespace strobe::ops {
namespace {  // separate copy per instruction set

inline void adamw_range(const Update& update, const Trained& tensor, std::int64_t first, std::int64_t last) {
  const Update u = update;
  const float* const __restrict__ gradients = tensor.gradient;
  float* const __restrict__ means = tensor.mean;
  float* const __restrict__ variances = tensor.variance;
  float* const __restrict__ values = tensor.value;
  for (std::int64_t i = first; i < last; ++i) {
    const float gradient = gradients[i] * u.gradient_scale;
    const float mean = u.beta1 * means[i] + u.rest1 * gradient;
    const float variance = u.beta2 * variances[i] + u.rest2 * gradient * gradient;
    means[i] = mean;
    variances[i] = variance;
    values[i] = values[i] * u.shrink - u.rate * mean / (std::sqrt(variance) * u.unbias2 + u.eps);
  }
}

}  // namespace
}  // namespace strobe::ops
