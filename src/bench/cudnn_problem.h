// What cuDNN is told of a case, as plain data: made, and refused where the peer does not serve it, without cuDNN.
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
  CudnnTensor q, k, v, o;  // gradients are like what they are the gradient of
  CudnnTensor lse;         // [batch, heads, queries, 1], fp32
  float scale = 1;
  CudnnMask mask = CudnnMask::none;
  bool statistics = false;  // the forward writes LSE: where a backward comes after it, which needs it
  bool operator==(const CudnnProblem&) const = default;
};

// Throws Error(unsupported) with what the peer is not asked for. What cuDNN itself refuses comes out as a plan is made.
CudnnProblem cudnn_problem(const Case& one);

}  // namespace strobe::bench
