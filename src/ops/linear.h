// The linear layer y = x W^T + bias on row-major matrices, and its gradients. Called by lm/.
#pragma once

#include <cstdint>

#include "ops/execution_context.h"
#include "strobe/dtype.h"

namespace strobe::ops {

struct Linear {
  std::int64_t rows = 0, in = 0, out = 0;
  DType dtype = DType::fp32;  // type of x, y, W and the gradients of x and y; the gradient of W is fp32
};

// Optional tensors that are added to the result of a matmul. They have the type of this result.
struct Added {
  const void* addend = nullptr;  // [rows, out]; may be y itself
  const void* bias = nullptr;    // [out], added to every row; its gradient is column_sums of dy
};

// Computes y = x W^T + addend + bias. x: [rows, in]; weight: [out, in]; y: [rows, out].
void linear(const ExecutionContext& execution, const Linear& shape, const void* x, const void* weight, void* y,
            const Added& added = {});

// Computes dx = dy W, or dx += dy W with Into::sum. dy: [rows, out]; dx: [rows, in].
void linear_backward_input(const ExecutionContext& execution, const Linear& shape, const void* dy, const void* weight,
                           void* dx, Into into);

// Computes dW = dy^T x, or dW += dy^T x with Into::sum. dweight: [out, in].
void linear_backward_weight(const ExecutionContext& execution, const Linear& shape, const void* dy, const void* x,
                            float* dweight, Into into = Into::sum);

// Returns the workspace bytes of linear(). On the CPU linear() and its gradients allocate their workspace themselves,
// for fp32 copies of 16-bit operands and results. On CUDA execution.workspace should have this size. At least
// kWorkspaceBytes are required; with less than the full size a matmul may be slower.
std::size_t linear_workspace_bytes(const ExecutionContext& execution, const Linear& shape);
// Returns the larger of the workspace bytes of linear_backward_input() and linear_backward_weight().
std::size_t linear_backward_workspace_bytes(const ExecutionContext& execution, const Linear& shape);

// Column sums of a matrix, which are the gradient of a bias or of any other tensor that was added to every row.
struct ColumnSums {
  std::int64_t rows = 0, columns = 0;
  DType dtype = DType::fp32;  // type of x
};

// Sums x [rows, columns] over its rows in a fixed order, and writes the result to sums [columns] or adds it to them.
void column_sums(const ExecutionContext& execution, const ColumnSums& shape, const void* x, float* sums, Into into);

}  // namespace strobe::ops
