// A case in cuDNN's terms, as plain data. Created and validated without cuDNN.
#pragma once

#include <array>
#include <cstdint>

#include "bench/case.h"

namespace strobe::bench {

struct CudnnTensor {
  std::array<std::int64_t, 4> shape{};   // [batch, heads, sequence, dim]
  std::array<std::int64_t, 4> stride{};  // in elements
  bool operator==(const CudnnTensor&) const = default;
};

enum class CudnnMask { none, causal_top_left, causal_bottom_right };

struct CudnnProblem {
  DType dtype = DType::fp16;
  CudnnTensor q, k, v, o;  // gradients have their tensor's layout
  CudnnTensor lse;         // [batch, heads, queries, 1], fp32
  float scale = 1;
  CudnnMask mask = CudnnMask::none;
  bool statistics = false;  // forward writes LSE, which a backward needs
  bool operator==(const CudnnProblem&) const = default;
};

// Throws Error(unsupported) for options that this peer lacks. Plan creation reports what cuDNN itself rejects.
CudnnProblem cudnn_problem(const Case& one);

}  // namespace strobe::bench
