// Implements the operations of Transformer, except attention, and their backward.
#include "lm/models/transformer.h"

#include <cstring>
#include <utility>

#include "ops/activation.h"
#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/norm.h"

namespace strobe::lm {

using ops::Into;

Transformer::Transformer(const TransformerOptions& options)
    : options_(options),
      tokens_(options.batch * options.shape.context),
      dtype_(options.dtype),
      parameters_(parameter_table(options.shape)),
      plan_(activation_plan(options.shape, options.batch, options.dtype,
                            {.recompute = options.recompute,
                             .gradients = options.gradients,
                             .attention = attention_memory_of(options.attention)})) {}

void Transformer::bind(TransformerMemory memory, const ops::ExecutionContext& execution, const GpuStream* stream) {
  memory_ = std::move(memory);
  execution_ = execution;
  stream_ = stream;
}

void Transformer::forward() {
  phase_ = Phase::forward;
  shape().definition().forward(*this);
}

void Transformer::backward(Into into, Updatable updatable) {
  phase_ = Phase::backward;
  gradients_into_ = into;
  updatable_ = std::move(updatable);
  shape().definition().backward(*this);
  updatable_ = {};
}

// Reports these parameters' gradients as final, from the last parameter to the first.
void Transformer::report_ready(Weights weights) const {
  if (!gradient_ready_) return;
  for (auto i = static_cast<std::size_t>(weights.parts); i-- > 0;) gradient_ready_(weights.first + i);
}

void Transformer::clear(float* data, std::int64_t count) const {
  stream_ ? stream_->clear(data, float_bytes(count)) : void(std::memset(data, 0, float_bytes(count)));
}

// --- linear layers ---------------------------------------------------------------------------------------------------

void Transformer::linear(Weights weights, std::size_t x, std::size_t y) {
  const auto& [out, in] = parameters_[weights.first].shape;
  const Recorded scope = recorded_matmul("linear", weights, {x}, {y});
  ops::linear(execution_, {tokens_, in, weights.parts * out, dtype_}, at(x), memory_.weights[weights.first], at(y),
              {.bias = bias_data(weights)});
}

void Transformer::linear_onto(Weights weights, std::size_t x, std::size_t addend, std::size_t y) {
  const auto& [out, in] = parameters_[weights.first].shape;
  const Recorded scope = recorded_matmul("linear", weights, {x, addend}, {y});
  ops::linear(execution_, {tokens_, in, out, dtype_}, at(x), memory_.weights[weights.first], at(y),
              {.addend = at(addend), .bias = bias_data(weights)});
}

// Returns the execution context of backward matmuls. The fastest tiles occupy all multiprocessors, which leaves none to
// an overlapped AdamW. The tiles that cuBLASLt proposes first leave some multiprocessors idle near the end of a matmul.
// The matmul is then slower, but the step is faster (docs/training.md, "Ideas tried").
ops::ExecutionContext Transformer::backward_execution() const {
  ops::ExecutionContext execution = execution_;
  execution.searches_tiles = !leaves_room_;
  return execution;
}

void Transformer::linear_backward(Weights weights, std::size_t dy, std::size_t x, std::size_t dx) {
  const auto& [out, in] = parameters_[weights.first].shape;
  const ops::Linear shape{tokens_, in, weights.parts * out, dtype_};
  const ops::ExecutionContext execution = backward_execution();
  if (const std::optional<std::size_t> bias = bias_of(weights)) bias_backward({*bias, weights.parts}, dy, shape.out);
  {
    const Recorded scope =
        recorded_matmul("linear backward weight", weights, {rows(dy, shape.out), x}, {}, weights.parts);
    ops::linear_backward_weight(execution, shape, at(dy), at(x), gradient(weights.first), gradients_into_);
  }
  report_ready(weights);
  const Recorded scope = recorded_matmul("linear backward input", weights, {rows(dy, shape.out)}, {rows(dx, in)});
  ops::linear_backward_input(execution, shape, at(dy), memory_.weights[weights.first], at(dx), Into::set);
}

void Transformer::unembed() { linear(parameters_.size() - 1, plan_.normed, plan_.logits); }

void Transformer::unembed_backward() {
  linear_backward(parameters_.size() - 1, plan_.logits, plan_.normed, plan_.d_narrow);
}

// Returns the table index of the first bias of these weights; nullopt if they have no biases. Biases follow their
// weights in the table.
std::optional<std::size_t> Transformer::bias_of(Weights weights) const {
  const std::size_t first_bias = weights.first + static_cast<std::size_t>(weights.parts);
  if (first_bias < parameters_.size() && is_bias(parameters_[first_bias].role)) return first_bias;
  return {};
}

const void* Transformer::bias_data(Weights weights) const {
  const std::optional<std::size_t> bias = bias_of(weights);
  return bias ? memory_.weights[*bias] : nullptr;
}

// Computes bias gradients, but sets the gradient of k's bias to 0. That bias adds one number to all scores of a row,
// which does not change the softmax, so its exact gradient is 0. The computed sum would be rounding noise, which AdamW
// turns into full steps that differ with the number of ranks.
void Transformer::bias_backward(Weights biases, std::size_t dy, std::int64_t width) {
  const Recorded scope =
      recorded("bias backward", OperationKind::elementwise, biases, {rows(dy, width)}, {}, biases.parts);
  ops::column_sums(execution_, {tokens_, width, dtype_}, at(dy), gradient(biases.first), gradients_into_);
  for (std::size_t i = biases.first; i < biases.first + static_cast<std::size_t>(biases.parts); ++i) {
    if (parameters_[i].role == Role::key_bias) clear(gradient(i), parameters_[i].count());
  }
  report_ready(biases);
}

// --- norms -----------------------------------------------------------------------------------------------------------

void Transformer::rms_norm(std::size_t weight, std::size_t x, std::size_t y, std::size_t statistics) {
  const Recorded scope = recorded("rms_norm", OperationKind::norm, weight, {x}, {y, statistics});
  ops::rms_norm(execution_, {.rows = tokens_, .width = shape().d_model, .dtype = dtype_}, at(x), value(weight), at(y),
                floats(statistics));
}

void Transformer::layer_norm(std::size_t weight, std::size_t x, std::size_t y, std::size_t statistics) {
  const Recorded scope = recorded("layer_norm", OperationKind::norm, weight, {x}, {y, statistics});
  ops::layer_norm(
      execution_, {.rows = tokens_, .width = shape().d_model, .dtype = dtype_},
      {.x = at(x), .weight = value(weight), .bias = value(weight + 1), .y = at(y), .statistics = floats(statistics)});
}

void Transformer::rms_norm_backward(std::size_t weight, std::size_t x, std::size_t statistics, Into into) {
  const Recorded scope = recorded_norm_backward("rms_norm backward", weight, x, statistics, into);
  ops::rms_norm_backward(execution_, {.rows = tokens_, .width = shape().d_model, .dtype = dtype_},
                         {.x = at(x),
                          .weight = value(weight),
                          .inverse = floats(statistics),
                          .dy = at(plan_.d_narrow),
                          .dx = at(plan_.d_x),
                          .dx_into = into,
                          .dweight = gradient(weight),
                          .dweight_into = gradients_into_});
  report_ready(weight);
}

void Transformer::layer_norm_backward(std::size_t weight, std::size_t x, std::size_t statistics, Into into) {
  const Weights with_bias(weight, 2);
  const Recorded scope = recorded_norm_backward("layer_norm backward", with_bias, x, statistics, into);
  ops::layer_norm_backward(execution_, {.rows = tokens_, .width = shape().d_model, .dtype = dtype_},
                           {.x = at(x),
                            .weight = value(weight),
                            .statistics = floats(statistics),
                            .dy = at(plan_.d_narrow),
                            .dx = at(plan_.d_x),
                            .dx_into = into,
                            .dweight = gradient(weight),
                            .dbias = gradient(weight + 1),
                            .parameters_into = gradients_into_});
  report_ready(with_bias);
}

// --- elementwise -----------------------------------------------------------------------------------------------------

// Rotates q and k in place. q and k are adjacent in qkv, so one call rotates 2 * heads heads and skips v.
void Transformer::rope(Weights q_and_k, std::size_t qkv, ops::Rotation direction) {
  const TensorUse both = rows(qkv, 2 * shape().d_model);
  const Recorded scope = recorded(direction == ops::Rotation::forward ? "rope" : "rope backward",
                                  OperationKind::elementwise, q_and_k, {both}, {both});
  ops::rope(execution_,
            {.tokens = tokens_,
             .heads = 2 * shape().heads,
             .head_dim = shape().head_dim(),
             .context = shape().context,
             .stride = 3 * shape().d_model,
             .dtype = dtype_},
            memory_.rope, at(qkv), direction);
}

void Transformer::swiglu(Weights weights, std::size_t layer) {
  const BlockActivations& a = plan_.blocks[layer];
  const Recorded scope = recorded("swiglu", OperationKind::elementwise, weights, {a.hidden}, {a.activated});
  ops::swiglu(execution_, {tokens_, shape().d_ff, dtype_}, at(a.hidden), at(a.activated));
}

void Transformer::gelu(Weights weights, std::size_t layer) {
  const BlockActivations& a = plan_.blocks[layer];
  const Recorded scope = recorded("gelu", OperationKind::elementwise, weights, {a.hidden}, {a.activated});
  ops::gelu(execution_, {tokens_, shape().d_ff, dtype_}, at(a.hidden), at(a.activated));
}

void Transformer::swiglu_backward(Weights weights, std::size_t layer) {
  const std::size_t hidden = plan_.blocks[layer].hidden, dy = plan_.d_wide;
  const Recorded scope =
      recorded("swiglu backward", OperationKind::elementwise, weights, {hidden, rows(dy, shape().d_ff)}, {hidden});
  ops::swiglu_backward(execution_, {tokens_, shape().d_ff, dtype_}, at(hidden), at(dy), at(hidden));
}

void Transformer::gelu_backward(Weights weights, std::size_t layer) {
  const std::size_t hidden = plan_.blocks[layer].hidden, dy = plan_.d_wide;
  const Recorded scope =
      recorded("gelu backward", OperationKind::elementwise, weights, {hidden, rows(dy, shape().d_ff)}, {hidden});
  ops::gelu_backward(execution_, {tokens_, shape().d_ff, dtype_}, at(hidden), at(dy), at(hidden));
}

// --- tokens and loss -------------------------------------------------------------------------------------------------

void Transformer::embed(std::optional<std::size_t> positions) {
  const std::size_t out = plan_.blocks[0].x;
  const Recorded scope = recorded("embedding", OperationKind::copy, kEmbedding, {}, {out});
  ops::embedding(execution_, {tokens_, shape().vocabulary, shape().d_model, dtype_}, memory_.tokens, value(kEmbedding),
                 at(out), {.table = positions ? value(*positions) : nullptr, .context = shape().context});
}

void Transformer::embed_backward(std::optional<std::size_t> positions) {
  if (positions) {
    const Recorded scope = recorded("positions backward", OperationKind::elementwise, *positions, {plan_.d_x}, {}, 1);
    ops::column_sums(execution_, {options_.batch, shape().context * shape().d_model, dtype_}, at(plan_.d_x),
                     gradient(*positions), gradients_into_);
    report_ready(*positions);
  }
  const Recorded scope = recorded("embedding backward", OperationKind::copy, kEmbedding, {plan_.d_x}, {}, 1);
  ops::embedding_backward(execution_, {tokens_, shape().vocabulary, shape().d_model, dtype_}, memory_.tokens,
                          at(plan_.d_x), gradient(kEmbedding), gradients_into_);
  report_ready(kEmbedding);
}

void Transformer::cross_entropy(LossOnly what) {
  const Weights unembedding = parameters_.size() - 1;
  const ops::CrossEntropy rows{
      .rows = tokens_, .vocabulary = shape().vocabulary, .dtype = dtype_, .loss_scale = memory_.loss_scale};
  if (what == LossOnly::yes) {
    const Recorded scope = recorded("cross_entropy", OperationKind::loss, unembedding, {plan_.logits}, {});
    return ops::cross_entropy(execution_, rows, at(plan_.logits), memory_.targets, memory_.losses);
  }
  const Recorded scope = recorded("cross_entropy", OperationKind::loss, unembedding, {plan_.logits}, {plan_.logits});
  ops::cross_entropy_with_gradient(execution_, rows, at(plan_.logits), memory_.targets, memory_.losses);
}

}  // namespace strobe::lm
