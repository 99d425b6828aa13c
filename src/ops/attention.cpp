// Implements ops/attention.h with batched matmuls and a softmax over materialised scores.
#include "ops/attention.h"

#include <algorithm>
#include <cmath>

#include "device/host/profile_scope.h"
#include "ops/batched_matmul.h"
#include "ops/cpu/each_row.h"
#include "ops/cpu/isa.h"
#include "ops/cuda/launch.h"

namespace strobe::ops {

namespace {

using Shape = MaterialisedAttention;

// --- tensors as one matrix per head ----------------------------------------------------------------------------------

enum class Qkv { q, k, v };

HeadMatrices packed_rows(const Shape& shape, std::int64_t tensors) {
  const std::int64_t token = tensors * shape.heads * shape.head_dim;
  return {.rows = shape.context,
          .cols = shape.head_dim,
          .row_stride = token,
          .head_stride = shape.head_dim,
          .batch_stride = shape.context * token};
}

HeadMatrices scores_of(const Shape& shape) {
  const std::int64_t S = shape.context;
  return {.rows = S, .cols = S, .row_stride = S, .head_stride = S * S, .batch_stride = shape.heads * S * S};
}

std::size_t offset_of(const Shape& shape, Qkv which) {
  return static_cast<std::size_t>(static_cast<int>(which) * shape.heads * shape.head_dim) * size_of(shape.dtype);
}

HeadOperand operand_of(const Shape& shape, const void* qkv, Qkv which) {
  const void* const data = qkv ? static_cast<const char*>(qkv) + offset_of(shape, which) : nullptr;
  return {.data = data, .matrices = packed_rows(shape, 3)};
}

HeadOperand scores_operand(const Shape& shape, const void* scores) {
  return {.data = scores, .matrices = scores_of(shape)};
}

HeadOperand output_operand(const Shape& shape, const void* o) { return {.data = o, .matrices = packed_rows(shape, 1)}; }

HeadOperand transposed(HeadOperand operand) {
  operand.transposed = !operand.transposed;
  return operand;
}

float scale_of(const Shape& shape) { return 1 / std::sqrt(static_cast<float>(shape.head_dim)); }

struct Output {
  void* data;
  HeadMatrices matrices;
};

Output gradient_of(const Shape& shape, void* d_qkv, Qkv which) {
  return {static_cast<char*>(d_qkv) + offset_of(shape, which), packed_rows(shape, 3)};
}

BatchedMatmul matmul_of(const Shape& shape, const HeadOperand& a, const HeadOperand& b, const Output& c,
                        float scale = 1) {
  return {.batch = shape.batch,
          .heads = shape.heads,
          .dtype = shape.dtype,
          .scale = scale,
          .a = a,
          .b = b,
          .c = c.data,
          .c_matrices = c.matrices};
}

BatchedMatmul score_matmul(const Shape& shape, const void* qkv, void* scores) {
  return matmul_of(shape, operand_of(shape, qkv, Qkv::q), transposed(operand_of(shape, qkv, Qkv::k)),
                   {scores, scores_of(shape)}, scale_of(shape));
}

BatchedMatmul output_matmul(const Shape& shape, const void* probabilities, const void* qkv, void* o) {
  return matmul_of(shape, scores_operand(shape, probabilities), operand_of(shape, qkv, Qkv::v),
                   {o, packed_rows(shape, 1)});
}

void timed_matmul(const ExecutionContext& execution, const char* part, const BatchedMatmul& matmul) {
  const ProfileScope scope(part, ScopeKind::matmul);
  batched_matmul(execution, matmul);
}

// --- softmax ---------------------------------------------------------------------------------------------------------

// Calls body(offset, allowed) for each row of the score matrices. The row starts at `offset`, and its query may use the
// first `allowed` keys.
template <class Body>
void each_score_row(const ExecutionContext& execution, const Shape& shape, Body&& body) {
  const std::int64_t S = shape.context;
  each_row(execution.threads, shape.batch * shape.heads * S, S, [&](std::int64_t row) { body(row * S, row % S + 1); });
}

void softmax(const ExecutionContext& execution, const Shape& shape, void* scores) {
  const ProfileScope scope("softmax");
  const std::int64_t S = shape.context;
  if (execution.device == Device::cuda) {
    return cuda::causal_softmax(execution, {shape.batch * shape.heads * S, S, shape.dtype}, scores);
  }
  const Isa& isa = chosen_isa();
  with_type(shape.dtype, [&]<class T>(T*) {
    each_score_row(execution, shape, [&](std::int64_t first, std::int64_t allowed) {
      T* const row = static_cast<T*>(scores) + first;
      isa.of<T>().softmax(row, allowed);
      std::fill(row + allowed, row + S, T{});
    });
  });
}

void softmax_backward(const ExecutionContext& execution, const Shape& shape, const void* probabilities,
                      void* gradient) {
  const ProfileScope scope("softmax gradient");
  const std::int64_t S = shape.context;
  if (execution.device == Device::cuda) {
    return cuda::causal_softmax_backward(execution, {shape.batch * shape.heads * S, S, shape.dtype}, probabilities,
                                         gradient);
  }
  const Isa& isa = chosen_isa();
  with_type(shape.dtype, [&]<class T>(T*) {
    each_score_row(execution, shape, [&](std::int64_t first, std::int64_t allowed) {
      T* const row = static_cast<T*>(gradient) + first;
      isa.of<T>().softmax_backward(static_cast<const T*>(probabilities) + first, row, allowed);
      std::fill(row + allowed, row + S, T{});
    });
  });
}

}  // namespace

void attention(const ExecutionContext& execution, const Shape& shape, const void* qkv, void* probabilities, void* o) {
  timed_matmul(execution, "QK^T matmul", score_matmul(shape, qkv, probabilities));
  softmax(execution, shape, probabilities);
  timed_matmul(execution, "PV matmul", output_matmul(shape, probabilities, qkv, o));
}

void attention_backward(const ExecutionContext& execution, const Shape& shape, const AttentionGradients& tensors) {
  const HeadOperand d_o = output_operand(shape, tensors.d_o), d_scores = scores_operand(shape, tensors.d_scores);
  const HeadOperand probabilities = scores_operand(shape, tensors.probabilities);
  const auto input = [&](Qkv which) { return operand_of(shape, tensors.qkv, which); };
  const auto gradient = [&](Qkv which) { return gradient_of(shape, tensors.d_qkv, which); };
  timed_matmul(execution, "dV matmul", matmul_of(shape, transposed(probabilities), d_o, gradient(Qkv::v)));
  timed_matmul(execution, "dP matmul",
               matmul_of(shape, d_o, transposed(input(Qkv::v)), {tensors.d_scores, scores_of(shape)}));
  softmax_backward(execution, shape, tensors.probabilities, tensors.d_scores);
  const float scale = scale_of(shape);
  timed_matmul(execution, "dQ matmul", matmul_of(shape, d_scores, input(Qkv::k), gradient(Qkv::q), scale));
  timed_matmul(execution, "dK matmul", matmul_of(shape, transposed(d_scores), input(Qkv::q), gradient(Qkv::k), scale));
}

// Returns the largest workspace of the matmuls. QK^T and dP have the same shapes, and so have PV, dV, dQ and dK. The dV
// matmul represents these four: its result is never computed in place, because rows of dV are interleaved with those of
// dQ and dK.
std::size_t attention_workspace_bytes(const Shape& shape) {
  const BatchedMatmul dv = matmul_of(shape, transposed(scores_operand(shape, nullptr)), output_operand(shape, nullptr),
                                     {nullptr, packed_rows(shape, 3)});
  return std::max(batched_matmul_workspace_bytes(score_matmul(shape, nullptr, nullptr)),
                  batched_matmul_workspace_bytes(dv));
}

}  // namespace strobe::ops
