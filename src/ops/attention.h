// Causal self-attention as a tensor library computes it, with materialised scores: matmul, softmax, matmul. The forward
// pass stores the probabilities and the backward pass reads them. The language model uses it with `--attention
// standard`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/execution_context.h"
#include "strobe/dtype.h"

namespace strobe::ops {

struct MaterialisedAttention {
  std::int64_t batch = 0, heads = 0, context = 0, head_dim = 0;
  DType dtype = DType::fp32;  // type of all tensors
};

// Computes probabilities [batch, heads, context, context] and o [batch, context, heads, head_dim]. The probabilities
// are the softmax of the scores q k / sqrt(head_dim), with zeros above the diagonal. qkv is [batch, context, 3, heads,
// head_dim].
void attention(const ExecutionContext& execution, const MaterialisedAttention& shape, const void* qkv,
               void* probabilities, void* o);

struct AttentionGradients {
  const void *qkv, *probabilities, *d_o;
  void* d_scores;  // [batch, heads, context, context], scratch
  void* d_qkv;     // shape of qkv
};

// Computes the gradients of q, k and v. d_scores and d_qkv must not overlap any other tensor.
void attention_backward(const ExecutionContext& execution, const MaterialisedAttention& shape,
                        const AttentionGradients& tensors);

// Returns the peak bytes that attention() or attention_backward() allocates on the CPU.
std::size_t attention_workspace_bytes(const MaterialisedAttention& shape);

}  // namespace strobe::ops
