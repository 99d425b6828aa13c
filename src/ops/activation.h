// Activation functions of the feed-forward layer, element by element: GELU and SwiGLU. Called by lm/models/.
#pragma once

#include <cstdint>

#include "ops/execution_context.h"
#include "strobe/dtype.h"

namespace strobe::ops {

// Exact GELU instead of the tanh approximation: y = x P(X < x), where X is a standard normal variable.
struct Gelu {
  std::int64_t rows = 0, width = 0;
  DType dtype = DType::fp32;
};

// x, y: [rows, width].
void gelu(const ExecutionContext& execution, const Gelu& shape, const void* x, void* y);

// Computes dx from dy. dx may be x.
void gelu_backward(const ExecutionContext& execution, const Gelu& shape, const void* x, const void* dy, void* dx);

// --- SwiGLU ----------------------------------------------------------------------------------------------------------

// y = silu(a) b with silu(a) = a / (1 + exp(-a)). The rows of a and b are adjacent, because one matmul computes both.
struct Swiglu {
  std::int64_t rows = 0, width = 0;
  DType dtype = DType::fp32;
};

// ab: [rows, 2, width]; y: [rows, width].
void swiglu(const ExecutionContext& execution, const Swiglu& shape, const void* ab, void* y);

// Computes dab from dy. dab may be ab.
void swiglu_backward(const ExecutionContext& execution, const Swiglu& shape, const void* ab, const void* dy, void* dab);

}  // namespace strobe::ops
