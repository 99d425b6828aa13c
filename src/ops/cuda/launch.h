// The operations on a GPU. A function without a comment has the contract of the function of the same name in src/ops,
// which calls it. In a build without CUDA, no_cuda.cpp defines stubs that throw.
#pragma once

#include <cstdint>
#include <span>

#include "ops/activation.h"
#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "ops/execution_context.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/optimizer.h"
#include "ops/rope.h"
#include "strobe/dtype.h"

namespace strobe::ops::cuda {

// A row-major matrix operand. Strides are in elements.
struct Factor {
  const void* data = nullptr;
  std::int64_t rows = 0, cols = 0;  // shape as stored
  bool transposed = false;          // the matmul uses the transpose
  std::int64_t row_stride = 0;      // 0: cols
  std::int64_t matrix_stride = 0;   // between matrices of a batch
};

// A matmul d [rows, cols] = scale * a b (+ addend, which may be d itself) (+ bias), with fp32 sums. With `matrices` > 1
// it is a batched matmul, without addend and bias.
struct Matmul {
  Factor a, b;
  DType in = DType::fp32, out = DType::fp32;
  const void* addend = nullptr;  // d's type and shape; null: none
  const void* bias = nullptr;    // [cols] in d's type, added to every row; null: none
  void* d = nullptr;
  std::int64_t d_row_stride = 0, d_matrix_stride = 0;  // row stride 0: cols; matrix stride: for a batch
  std::int64_t matrices = 1;
  float scale = 1;
};

// Computes the matmul with cuBLASLt.
void gemm(const ExecutionContext& execution, const Matmul& matmul);

// Bytes of `count` fp32 elements, rounded up to the alignment of the next tensor.
constexpr std::size_t aligned_bytes(std::int64_t count) {
  return (static_cast<std::size_t>(count) * sizeof(float) + 255) / 256 * 256;
}

// Returns the workspace bytes, in addition to kWorkspaceBytes, for transposed copies of dy and x in the matmul dW [out,
// in] = dy^T x over `rows` rows. Without the copies the TF32 rate of this matmul halves (linear.cpp). Returns 0 if the
// copies do not pay off, that is, with fewer than 1,200 operations per transposed element.
constexpr std::size_t transposed_bytes(std::int64_t rows, std::int64_t out, std::int64_t in) {
  constexpr std::int64_t kOperations = 1200;
  if (2 * out * in < kOperations * (out + in)) return 0;
  return aligned_bytes(rows * out) + aligned_bytes(rows * in);
}

// Writes the transpose of `from` [rows, cols] to `to` [cols, rows].
void transpose(const ExecutionContext& execution, const float* from, std::int64_t rows, std::int64_t cols, float* to);

void column_sums(const ExecutionContext& execution, const ColumnSums& shape, const void* x, float* sums, Into into);

void layer_norm(const ExecutionContext& execution, const LayerNorm& norm, const LayerNormTensors& tensors);
void layer_norm_backward(const ExecutionContext& execution, const LayerNorm& norm, const LayerNormGradients& tensors);
void rms_norm(const ExecutionContext& execution, const RmsNorm& norm, const void* x, const float* weight, void* y,
              float* inverse);
void rms_norm_backward(const ExecutionContext& execution, const RmsNorm& norm, const RmsNormGradients& tensors);
void rope(const ExecutionContext& execution, const Rope& shape, const float* table, void* x, Rotation rotation);
void swiglu(const ExecutionContext& execution, const Swiglu& shape, const void* ab, void* y);
void swiglu_backward(const ExecutionContext& execution, const Swiglu& shape, const void* ab, const void* dy, void* dab);
void gelu(const ExecutionContext& execution, const Gelu& shape, const void* x, void* y);
void gelu_backward(const ExecutionContext& execution, const Gelu& shape, const void* x, const void* dy, void* dx);
void embedding(const ExecutionContext& execution, const Embedding& shape, const std::int32_t* token, const float* table,
               void* y, const Positions& positions);
void embedding_backward(const ExecutionContext& execution, const Embedding& shape, const std::int32_t* token,
                        const void* dy, float* dtable, Into into);

// Rows of score matrices [context, context]. Row i of each matrix uses the keys [0, i].
struct ScoreRows {
  std::int64_t rows = 0, context = 0;
  DType dtype = DType::fp32;
};

// Replaces the scores by their softmax, with zeros above the diagonal.
void causal_softmax(const ExecutionContext& execution, const ScoreRows& shape, void* scores);
// Replaces the gradient with respect to the probabilities by the gradient with respect to the scores, with zeros above
// the diagonal.
void causal_softmax_backward(const ExecutionContext& execution, const ScoreRows& shape, const void* probabilities,
                             void* gradient);

// Implements both cross_entropy() (untouched) and cross_entropy_with_gradient() (gradient).
enum class LogitsBecome { untouched, gradient };
void cross_entropy(const ExecutionContext& execution, const CrossEntropy& shape, void* logits,
                   const std::int32_t* target, float* losses, LogitsBecome become);

void adamw(const ExecutionContext& execution, const Update* update, std::span<const Trained> tensors);
void limit_gradients(const ExecutionContext& execution, std::span<const Trained> tensors, Update* update);
void round_copies(const ExecutionContext& execution, std::span<const Trained> tensors);

// Copy from host memory to the GPU (write) or back (read), in stream order, and wait for completion.
void write(const ExecutionContext& execution, void* to, const void* host, std::size_t bytes);
void read(const ExecutionContext& execution, void* host, const void* from, std::size_t bytes);

}  // namespace strobe::ops::cuda
