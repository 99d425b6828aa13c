// Implements Isa::matmul_row (GEMV): one row times a transposed matrix. Each output is the dot product of x with a
// row of the weight. The weight is read once and in place, and this read limits the speed of decoding.
#pragma once

#include "core/simd_memory.h"
#include "ops/cpu/isa.h"

namespace strobe::ops {
namespace {

using namespace strobe::cpu;

// Computes kRows outputs together, so that they share the loads of x.
template <int kRows>
STROBE_INLINE void dot_rows(const RowMatmul& p, std::int64_t first) {
  constexpr int kSums = 8 / kRows;  // sums per row; eight independent sums in all hide the latency of additions
  F32 sum[kRows][kSums] = {};
  const float* const weight = p.weight + first * p.stride;
  std::int64_t i = 0;
  for (; i + kSums * kLanes <= p.in; i += kSums * kLanes) {
#pragma GCC unroll 8
    for (int s = 0; s < kSums; ++s) {
      const F32 x = load(p.x + i + s * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) add_product(sum[r][s], x, load(weight + r * p.stride + i + s * kLanes));
    }
  }
  for (; i < p.in; i += kLanes) {
    const int count = p.in - i < kLanes ? static_cast<int>(p.in - i) : kLanes;
    const F32 x = load_some(p.x + i, DType::fp32, 0, count);
    for (int r = 0; r < kRows; ++r) {
      add_product(sum[r][0], x, load_some(weight + r * p.stride + i, DType::fp32, 0, count));
    }
  }
  for (int r = 0; r < kRows; ++r) {
    const F32 lanes = sum_all(sum[r]);
    float total = 0;
    for (int lane = 0; lane < kLanes; ++lane) total += lanes[lane];
    p.y[first + r] = p.addend ? p.addend[first + r] + total : total;
  }
}

inline void matmul_row(const RowMatmul& p) {
  constexpr int kRows = 4;
  std::int64_t row = 0;
  for (; row + kRows <= p.out; row += kRows) dot_rows<kRows>(p, row);
  for (; row < p.out; ++row) dot_rows<1>(p, row);
}

}  // namespace
}  // namespace strobe::ops
