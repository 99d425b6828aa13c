// A linear layer, y = x W^T + bias, for row-major matrices, with its gradients.
#pragma once

#include <cstdint>

#include "ops/place.h"
#include "strobe/dtype.h"

namespace strobe::ops {

struct Linear {
  std::int64_t rows = 0, in = 0, out = 0;
  DType dtype = DType::fp32;  // type of x, y, W and the gradients of x and y; the gradient of W is fp32
};

// Tensors added to a matmul, in the type of its result; null: none.
struct Added {
  const void* addend = nullptr;  // [rows, out]; may be y itself
  const void* bias = nullptr;    // [out], added to every row; its gradient is column_sums of dy
};

// y = x W^T + addend + bias. x: [rows, in]; weight: [out, in]; y: [rows, out].
void linear(const Place& place, const Linear& shape, const void* x, const void* weight, void* y,
            const Added& added = {});

// dx = dy W, or dx += dy W with Into::sum.
void linear_backward_input(const Place& place, const Linear& shape, const void* dy, const void* weight, void* dx,
                           Into into);

// dW = dy^T x, or dW += dy^T x with Into::sum.
void linear_backward_weight(const Place& place, const Linear& shape, const void* dy, const void* x, float* dweight,
                            Into into = Into::sum);

// Returns the workspace of linear(), or of the larger of its two gradients. On the CPU the functions allocate it, for
// fp32 copies of 16-bit operands and results. On CUDA the place's workspace should have this size. With less, at least
// kWorkspaceBytes, they are slower.
std::size_t linear_workspace_bytes(const Place& place, const Linear& shape);
std::size_t linear_backward_workspace_bytes(const Place& place, const Linear& shape);

// Sums of a matrix over its rows: the gradient of a bias, or of any tensor that was added to every row.
struct ColumnSums {
  std::int64_t rows = 0, columns = 0;
  DType dtype = DType::fp32;  // type of x
};

// sums [columns] = sum of x [rows, columns] over its rows, in a fixed order. `into` selects overwriting or adding.
void column_sums(const Place& place, const ColumnSums& shape, const void* x, float* sums, Into into);

}  // namespace strobe::ops
