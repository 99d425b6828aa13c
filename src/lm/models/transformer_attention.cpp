// Implements attention of Transformer, fused or with materialised scores, and the workspace sizes of all operations.
#include <algorithm>
#include <array>

#include "lm/models/transformer.h"
#include "ops/linear.h"

namespace strobe::lm {

namespace {

using Heads = std::array<std::int64_t, 4>;  // batch, heads, context, head_dim

Heads heads_of(const TransformerOptions& one) {
  return {one.batch, one.shape.heads, one.shape.context, one.shape.head_dim()};
}

ops::MaterialisedAttention materialised(const TransformerOptions& one) {
  const auto [batch, heads, context, head_dim] = heads_of(one);
  return {.batch = batch, .heads = heads, .context = context, .head_dim = head_dim, .dtype = one.dtype};
}

// Describes fused attention. `qkv` may be null if only the workspace size is computed.
Attention fused_attention(const TransformerOptions& one, const void* qkv) {
  const auto view = [&](int which) { return view_packed_qkv<const void>(qkv, one.dtype, heads_of(one), which); };
  return {.q = view(0), .k = view(1), .v = view(2), .causal = true};
}

// Sets tf32 only for fp32 on CUDA, because the library refuses it otherwise.
Execution attention_execution(const TransformerOptions& one, const ops::ExecutionContext& execution) {
  return {.device = execution.device,
          .kernel = one.attention,
          .threads = execution.threads,
          .deterministic = execution.deterministic,
          .tf32 = execution.tf32 && execution.device == Device::cuda && one.dtype == DType::fp32,
          .stream = execution.stream,
          .workspace = execution.workspace,
          .workspace_bytes = execution.workspace_bytes};
}

}  // namespace

// --- operations ------------------------------------------------------------------------------------------------------

void Transformer::attention(std::size_t layer) {
  if (is_materialised()) return materialised_attention(layer);
  const BlockActivations& a = plan_.blocks[layer];
  const Recorded scope = a.lse == kNoTensor ? recorded_attention(Pass::forward, layer, {a.qkv}, {a.o})
                                            : recorded_attention(Pass::forward, layer, {a.qkv}, {a.o, a.lse});
  strobe::forward(fused_attention(options_, at(a.qkv)),
                  {.o = view_bshd<void>(at(a.o), dtype_, heads_of(options_)), .lse = floats(a.lse)},
                  attention_execution(options_, execution_));
}

void Transformer::attention_backward(std::size_t layer) {
  if (is_materialised()) return materialised_attention_backward(layer);
  const BlockActivations& a = plan_.blocks[layer];
  const Heads heads = heads_of(options_);
  const auto in = [&](std::size_t tensor) { return view_bshd<const void>(at(tensor), dtype_, heads); };
  const auto out = [&](int which) { return view_packed_qkv<void>(at(plan_.d_wide), dtype_, heads, which); };
  const Recorded scope = recorded_attention(Pass::backward, layer, {a.qkv, a.o, a.lse, plan_.d_narrow},
                                            {rows(plan_.d_wide, 3 * shape().d_model)});
  strobe::backward(fused_attention(options_, at(a.qkv)),
                   {.o = in(a.o), .lse = floats(a.lse), .d_o = in(plan_.d_narrow)},
                   {.dq = out(0), .dk = out(1), .dv = out(2)}, attention_execution(options_, execution_));
}

void Transformer::materialised_attention(std::size_t layer) {
  const BlockActivations& a = plan_.blocks[layer];
  const Recorded scope = recorded_attention(Pass::forward, layer, {a.qkv}, {a.probabilities, a.o});
  ops::attention(execution_, materialised(options_), at(a.qkv), at(a.probabilities), at(a.o));
}

void Transformer::materialised_attention_backward(std::size_t layer) {
  const BlockActivations& a = plan_.blocks[layer];
  const Recorded scope = recorded_attention(Pass::backward, layer, {a.qkv, a.probabilities, plan_.d_narrow},
                                            {rows(plan_.d_wide, 3 * shape().d_model), plan_.d_scores});
  ops::attention_backward(backward_execution(), materialised(options_),
                          {.qkv = at(a.qkv),
                           .probabilities = at(a.probabilities),
                           .d_o = at(plan_.d_narrow),
                           .d_scores = at(plan_.d_scores),
                           .d_qkv = at(plan_.d_wide)});
}

// --- workspaces ------------------------------------------------------------------------------------------------------

std::size_t matmul_workspace_bytes(const TransformerOptions& options, const ops::ExecutionContext& execution) {
  const ModelShape& shape = options.shape;
  const std::int64_t tokens = options.batch * shape.context, d = shape.d_model;
  std::size_t most = 0;
  for (const ops::Linear& matmul : {ops::Linear{tokens, d, 3 * d, options.dtype},
                                    {tokens, d, d, options.dtype},
                                    {tokens, d, shape.hidden_parts() * shape.d_ff, options.dtype},
                                    {tokens, shape.d_ff, d, options.dtype},
                                    {tokens, d, shape.vocabulary, options.dtype}}) {
    most = std::max(most, ops::linear_workspace_bytes(execution, matmul));
    if (options.gradients == GradientMemory::none) continue;
    most = std::max(most, ops::linear_backward_workspace_bytes(execution, matmul));
  }
  return most;
}

std::size_t workspace_bytes(const TransformerOptions& options, const ops::ExecutionContext& execution) {
  std::size_t most = matmul_workspace_bytes(options, execution);
  if (attention_memory_of(options.attention) == AttentionMemory::materialised) {
    if (execution.device == Device::cuda) return most;
    return std::max(most, ops::attention_workspace_bytes(materialised(options)));
  }
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    if (pass == Pass::backward && options.gradients == GradientMemory::none) continue;
    most = std::max(most, strobe::workspace_bytes(fused_attention(options, nullptr), pass,
                                                  attention_execution(options, execution)));
  }
  return most;
}

}  // namespace strobe::lm
