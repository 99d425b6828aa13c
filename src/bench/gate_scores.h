// Applies the score options (softcap, ALiBi, bias, sinks, dropout) to one row of one head in float64. The gate uses
// this.
#pragma once

#include <cmath>
#include <cstdlib>
#include <limits>

#include "bench/case.h"
#include "core/half.h"
#include "core/philox.h"

namespace strobe::bench {

struct ScoredRow {
  const AttentionCase& one;
  const Attention& attention;  // data on the host
  std::int64_t batch, head, row;

  // Returns softcap * tanh(s / softcap); cap_slope() is its derivative.
  double capped(double s) const {
    return one.options.softcap == 0 ? s : attention.softcap * std::tanh(s / attention.softcap);
  }
  double cap_slope(double s) const {
    if (one.options.softcap == 0) return 1;
    const double cosine = std::cosh(s / attention.softcap);
    return 1 / cosine / cosine;
  }

  // ALiBi and bias terms of key j's score.
  double bias_terms(std::int64_t j) const {
    double sum = 0;
    if (attention.alibi_slopes) {
      const std::int64_t distance = std::abs(row + diagonal_offset(one) - j);
      sum -= static_cast<double>(attention.alibi_slopes[head]) * static_cast<double>(distance);
    }
    if (const ConstView& bias = attention.bias) {
      const std::int64_t b = bias.shape[0] == 1 ? 0 : batch;
      const std::int64_t h = bias.shape[1] == 1 ? 0 : head;
      const std::int64_t i = bias.shape[2] == 1 ? 0 : row;
      sum += load_element(bias.data, bias.dtype, b * bias.stride[0] + h * bias.stride[1] + i * bias.stride[2] + j);
    }
    return sum;
  }

  // The sink logit, which has no key; -inf without sinks.
  double sink() const { return attention.sinks ? attention.sinks[head] : -std::numeric_limits<double>::infinity(); }

  // Dropout factor of key j's probability: 0 if it is dropped; 1 without dropout.
  double dropout_factor(std::int64_t j) const {
    const Dropout& dropout = attention.dropout;
    if (one.options.dropout == 0) return 1;
    const std::uint32_t threshold = dropout_threshold(dropout.p);
    return dropout_keeps(dropout.seed, threshold, batch, head, row, j) ? dropout_scale(threshold) : 0;
  }
};

}  // namespace strobe::bench
