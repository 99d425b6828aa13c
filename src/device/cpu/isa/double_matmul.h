// Matmul in float64, for the reference against which the bench checks outputs. Computes up to 64 columns of a row at a
// time. Each sum adds its terms in the order of the inner dimension.
#pragma once

#include "device/cpu/panels.h"

namespace strobe::blas {
namespace {

inline void multiply_double(const DoubleMatmul& p) {
  constexpr std::int64_t kColumns = 64;
  for (std::int64_t first = 0; first < p.n; first += kColumns) {
    const std::int64_t count = p.n - first < kColumns ? p.n - first : kColumns;
    for (std::int64_t i = 0; i < p.m; ++i) {
      double sum[kColumns] = {};
      for (std::int64_t t = 0; t < p.k; ++t) {
        const double left = p.a[i * p.a_row + t * p.a_step];
        const double* const right = p.b + t * p.b_step + first * p.b_col;
        for (std::int64_t j = 0; j < count; ++j) sum[j] += left * right[j * p.b_col];
      }
      double* const c = p.c + i * p.c_row + first;
      for (std::int64_t j = 0; j < count; ++j) c[j] = p.accumulate ? c[j] + sum[j] : sum[j];
    }
  }
}

}  // namespace
}  // namespace strobe::blas
