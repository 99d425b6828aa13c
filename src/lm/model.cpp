// The network, operation by operation.
#include "lm/model.h"

#include <array>

#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/swiglu.h"
#include "strobe/attention.h"

namespace strobe::lm {

namespace {

using ops::Into;

enum Part : std::size_t { kAttentionNorm, kQ, kK, kV, kO, kFeedForwardNorm, kW1, kW3, kW2 };
std::size_t part(std::size_t layer, Part which) { return 1 + layer * kParametersOfABlock + which; }

}  // namespace

// --- forward ---------------------------------------------------------------------------------------------------------

void Model::forward() {
  const std::size_t final_norm = parameters_.size() - 2, unembedding = parameters_.size() - 1;
  phase_ = Phase::forward;
  embed();
  for (std::size_t layer = 0; layer < plan_.blocks.size(); ++layer) {
    forward_block(layer, layer + 1 < plan_.blocks.size() ? plan_.blocks[layer + 1].x : plan_.x);
  }
  norm(final_norm, plan_.x, plan_.normed, plan_.inverse);
  linear(unembedding, 1, plan_.normed, plan_.logits);
}

void Model::forward_block(std::size_t layer, std::size_t out) {
  const BlockActivations& a = plan_.blocks[layer];
  forward_to_gated(layer);
  linear_onto(part(layer, kW2), a.gated, a.middle, out);
}

// All that the backward reads.
void Model::forward_to_gated(std::size_t layer) {
  const BlockActivations& a = plan_.blocks[layer];
  forward_to_o(layer);
  linear_onto(part(layer, kO), a.o, a.x, a.middle);
  norm(part(layer, kFeedForwardNorm), a.middle, a.feed_forward_normed, a.feed_forward_inverse);
  linear(part(layer, kW1), 2, a.feed_forward_normed, a.w1w3);
  gate(layer);
}

void Model::forward_to_o(std::size_t layer) {
  const BlockActivations& a = plan_.blocks[layer];
  norm(part(layer, kAttentionNorm), a.x, a.attention_normed, a.attention_inverse);
  linear(part(layer, kQ), 3, a.attention_normed, a.qkv);
  turn(layer, a.qkv, ops::Turn::forward);
  attend(layer);
}

// --- backward --------------------------------------------------------------------------------------------------------

void Model::backward(Into into) {
  gradients_into_ = into;
  phase_ = Phase::backward;
  const std::size_t final_norm = parameters_.size() - 2, unembedding = parameters_.size() - 1;
  linear_backward(unembedding, 1, plan_.logits, plan_.normed, plan_.d_narrow);
  norm_backward(final_norm, plan_.x, plan_.inverse, plan_.d_x, Into::set);
  for (std::size_t layer = plan_.blocks.size(); layer-- > 0;) backward_block(layer);
  embed_backward();
  tell_ready(kEmbedding);
}

// d_x: of what the block gave, then of what it got. Gradients of w1 and w3 lie where these do. Where blocks share what
// is made again, it is still the last block's when the backward begins.
void Model::backward_block(std::size_t layer) {
  const BlockActivations& a = plan_.blocks[layer];
  const Recompute again = layer + 1 < plan_.blocks.size() ? recompute_ : Recompute::none;
  if (again == Recompute::block) forward_to_gated(layer);
  linear_backward(part(layer, kW2), 1, plan_.d_x, a.gated, plan_.d_wide);
  gate_backward(layer);
  linear_backward(part(layer, kW1), 2, a.w1w3, a.feed_forward_normed, plan_.d_narrow);
  norm_backward(part(layer, kFeedForwardNorm), a.middle, a.feed_forward_inverse, plan_.d_x, Into::sum);

  if (again == Recompute::attention) forward_to_o(layer);
  linear_backward(part(layer, kO), 1, plan_.d_x, a.o, plan_.d_narrow);
  attend_backward(layer);
  turn(layer, plan_.d_wide, ops::Turn::back);
  linear_backward(part(layer, kQ), 3, plan_.d_wide, a.attention_normed, plan_.d_narrow);
  norm_backward(part(layer, kAttentionNorm), a.x, a.attention_inverse, plan_.d_x, Into::sum);
}

// --- attention -------------------------------------------------------------------------------------------------------

Attention Model::attention(std::size_t qkv) const {
  const std::array<std::int64_t, 4> heads{batch_, shape_.heads, shape_.context, shape_.head_dim()};
  const auto view = [&](int which) { return view_packed_qkv<const void>(at(qkv), dtype_, heads, which); };
  return {.q = view(0), .k = view(1), .v = view(2), .causal = true};
}

// Attention refuses tf32 where it has no meaning; a place allows it.
Execution Model::execution() const {
  return {.device = place_.device,
          .kernel = attention_,
          .threads = place_.threads,
          .deterministic = place_.deterministic,
          .tf32 = place_.tf32 && place_.device == Device::cuda && dtype_ == DType::fp32,
          .stream = place_.stream,
          .workspace = place_.workspace,
          .workspace_bytes = place_.workspace_bytes};
}

void Model::attend(std::size_t layer) const {
  const BlockActivations& a = plan_.blocks[layer];
  const std::array<std::int64_t, 4> heads{batch_, shape_.heads, shape_.context, shape_.head_dim()};
  const Recorded scope = recorded_attention(Pass::forward, layer, {a.qkv}, {a.o, a.lse});
  strobe::forward(attention(a.qkv), {.o = view_bshd<void>(at(a.o), dtype_, heads), .lse = floats(a.lse)}, execution());
}

// d_narrow: of o; d_wide: of q, k and v.
void Model::attend_backward(std::size_t layer) const {
  const BlockActivations& a = plan_.blocks[layer];
  const std::array<std::int64_t, 4> heads{batch_, shape_.heads, shape_.context, shape_.head_dim()};
  const auto in = [&](std::size_t tensor) { return view_bshd<const void>(at(tensor), dtype_, heads); };
  const auto out = [&](int which) { return view_packed_qkv<void>(at(plan_.d_wide), dtype_, heads, which); };
  const Recorded scope = recorded_attention(Pass::backward, layer, {a.qkv, a.o, a.lse, plan_.d_narrow},
                                            {rows(plan_.d_wide, 3 * shape_.d_model)});
  strobe::backward(attention(a.qkv), {.o = in(a.o), .lse = floats(a.lse), .d_o = in(plan_.d_narrow)},
                   {.dq = out(0), .dk = out(1), .dv = out(2)}, execution());
}

// --- one operation each ----------------------------------------------------------------------------------------------

void Model::linear(std::size_t parameter, int parts, std::size_t x, std::size_t y) const {
  const auto& [out, in] = parameters_[parameter].shape;
  const Recorded scope = recorded_product("linear", {parameter, parts}, {x}, {y});
  ops::linear(place_, {tokens_, in, parts * out, dtype_}, at(x), weight(parameter), at(y));
}

void Model::linear_onto(std::size_t parameter, std::size_t x, std::size_t addend, std::size_t y) const {
  const auto& [out, in] = parameters_[parameter].shape;
  const Recorded scope = recorded_product("linear", {parameter}, {x, addend}, {y});
  ops::linear(place_, {tokens_, in, out, dtype_}, at(x), weight(parameter), at(y), {.addend = at(addend)});
}

void Model::linear_backward(std::size_t parameter, int parts, std::size_t dy, std::size_t x, std::size_t dx) const {
  const auto& [out, in] = parameters_[parameter].shape;
  const ops::Linear shape{tokens_, in, parts * out, dtype_};
  {
    const Recorded scope = recorded_product("linear backward weight", {parameter, parts, Of::Gradient::written},
                                            {rows(dy, parts * out), x}, {});
    ops::linear_backward_weight(place_, shape, at(dy), at(x), gradient(parameter), gradients_into_);
  }
  tell_ready(parameter, parts);
  const Recorded scope =
      recorded_product("linear backward input", {parameter, parts}, {rows(dy, parts * out)}, {rows(dx, in)});
  ops::linear_backward_input(place_, shape, at(dy), weight(parameter), at(dx), Into::set);
}

void Model::norm(std::size_t parameter, std::size_t x, std::size_t y, std::size_t inverse) const {
  const Recorded scope = recorded("rms_norm", OperationKind::norm, {parameter}, {x}, {y, inverse});
  ops::rms_norm(place_, {.rows = tokens_, .width = shape_.d_model, .dtype = dtype_}, at(x), value(parameter), at(y),
                floats(inverse));
}

// From d_narrow.
void Model::norm_backward(std::size_t parameter, std::size_t x, std::size_t inverse, std::size_t dx, Into into) const {
  const Of of{parameter, 1, Of::Gradient::written};
  const Recorded scope =
      into == Into::sum ? recorded("rms_norm backward", OperationKind::norm, of, {x, inverse, plan_.d_narrow, dx}, {dx})
                        : recorded("rms_norm backward", OperationKind::norm, of, {x, inverse, plan_.d_narrow}, {dx});
  ops::rms_norm_backward(place_, {.rows = tokens_, .width = shape_.d_model, .dtype = dtype_},
                         {.x = at(x),
                          .weight = value(parameter),
                          .inverse = floats(inverse),
                          .dy = at(plan_.d_narrow),
                          .dx = at(dx),
                          .dx_into = into,
                          .dweight = gradient(parameter),
                          .dweight_into = gradients_into_});
  tell_ready(parameter);
}

// Of `parts` neighbours, from the last.
void Model::tell_ready(std::size_t parameter, int parts) const {
  if (!gradient_ready_) return;
  for (std::size_t i = static_cast<std::size_t>(parts); i-- > 0;) gradient_ready_(parameter + i);
}

// q and k lie side by side: twice the heads, and v is left out.
void Model::turn(std::size_t layer, std::size_t qkv, ops::Turn direction) const {
  const Recorded scope =
      recorded(direction == ops::Turn::forward ? "rope" : "rope backward", OperationKind::elementwise,
               {part(layer, kQ), 2}, {rows(qkv, 2 * shape_.d_model)}, {rows(qkv, 2 * shape_.d_model)});
  ops::rope(place_,
            {.tokens = tokens_,
             .heads = 2 * shape_.heads,
             .head_dim = shape_.head_dim(),
             .context = shape_.context,
             .stride = 3 * shape_.d_model,
             .dtype = dtype_},
            rope_.as<float>(), at(qkv), direction);
}

void Model::gate(std::size_t layer) const {
  const BlockActivations& a = plan_.blocks[layer];
  const Recorded scope = recorded("swiglu", OperationKind::elementwise, {part(layer, kW1), 2}, {a.w1w3}, {a.gated});
  ops::swiglu(place_, {tokens_, shape_.d_ff, dtype_}, at(a.w1w3), at(a.gated));
}

// d_wide: of gated.
void Model::gate_backward(std::size_t layer) const {
  const BlockActivations& a = plan_.blocks[layer];
  const Recorded scope = recorded("swiglu backward", OperationKind::elementwise, {part(layer, kW1), 2},
                                  {a.w1w3, rows(plan_.d_wide, shape_.d_ff)}, {a.w1w3});
  ops::swiglu_backward(place_, {tokens_, shape_.d_ff, dtype_}, at(a.w1w3), at(plan_.d_wide), at(a.w1w3));
}

void Model::embed() const {
  const std::size_t out = plan_.blocks[0].x;
  const Recorded scope = recorded("embedding", OperationKind::copy, {kEmbedding}, {}, {out});
  ops::embedding(place_, {tokens_, shape_.vocabulary, shape_.d_model, dtype_}, exchange_.placed().tokens(),
                 value(kEmbedding), at(out));
}

void Model::embed_backward() const {
  const Recorded scope =
      recorded("embedding backward", OperationKind::copy, {kEmbedding, 1, Of::Gradient::written}, {plan_.d_x}, {});
  ops::embedding_backward(place_, {tokens_, shape_.vocabulary, shape_.d_model, dtype_}, exchange_.placed().tokens(),
                          at(plan_.d_x), gradient(kEmbedding), gradients_into_);
}

void Model::cross_entropy(LossOnly what) const {
  const Exchange::Side there = exchange_.placed();
  const bool has_gradient = what == LossOnly::no;
  const Of of{parameters_.size() - 1};
  const Recorded scope = has_gradient
                             ? recorded("cross_entropy", OperationKind::loss, of, {plan_.logits}, {plan_.logits})
                             : recorded("cross_entropy", OperationKind::loss, of, {plan_.logits}, {});
  const ops::CrossEntropy shape{
      .rows = tokens_, .vocabulary = shape_.vocabulary, .dtype = dtype_, .loss_scale = &there.update()->loss_scale};
  if (!has_gradient) {
    ops::cross_entropy(place_, shape, at(plan_.logits), there.targets(), there.losses());
  } else {
    ops::cross_entropy_with_gradient(place_, shape, at(plan_.logits), there.targets(), there.losses());
  }
}

}  // namespace strobe::lm
