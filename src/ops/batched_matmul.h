// One matmul per attention head, on matrices at fixed strides inside larger tensors. Called by ops/attention.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/execution_context.h"
#include "strobe/dtype.h"

namespace strobe::ops {

// One matrix per head and sequence, with contiguous rows. Strides are in elements. They describe the heads of
// a tensor [batch, context, heads, head_dim] or [batch, heads, rows, cols].
struct HeadMatrices {
  std::int64_t rows = 0, cols = 0;
  std::int64_t row_stride = 0, head_stride = 0, batch_stride = 0;
};

struct HeadOperand {
  const void* data = nullptr;
  HeadMatrices matrices;    // shape and strides as stored
  bool transposed = false;  // the matmul uses the transpose of each stored matrix
};

// c = scale * a b for every head of every sequence. Sums and scaling are in fp32; c is rounded to `dtype` once.
struct BatchedMatmul {
  std::int64_t batch = 0, heads = 0;
  DType dtype = DType::fp32;  // type of a, b and c
  float scale = 1;
  HeadOperand a, b;
  void* c = nullptr;
  HeadMatrices c_matrices;
};

void batched_matmul(const ExecutionContext& execution, const BatchedMatmul& matmul);

// Returns the bytes that batched_matmul() allocates on the CPU: fp32 copies of one head's operands and result, except
// those that it uses in place.
std::size_t batched_matmul_workspace_bytes(const BatchedMatmul& matmul);

}  // namespace strobe::ops
