// The network, from its first operation to its last and back.
#include "lm/model.h"

#include <array>

#include "strobe/attention.h"

namespace strobe::lm {

using ops::Into;

// --- forward ---------------------------------------------------------------------------------------------------------

void Model::forward() {
  const std::size_t layers = plan_.blocks.size(), final_norm = places(layers).attention_norm;
  phase_ = Phase::forward;
  embed();
  for (std::size_t layer = 0; layer < layers; ++layer) {
    forward_block(layer, layer + 1 < layers ? plan_.blocks[layer + 1].x : plan_.x);
  }
  norm(final_norm, plan_.x, plan_.normed, plan_.statistics);
  linear(parameters_.size() - 1, 1, plan_.normed, plan_.logits);
}

void Model::forward_block(std::size_t layer, std::size_t out) {
  const BlockActivations& a = plan_.blocks[layer];
  forward_to_activated(layer);
  linear_onto(places(layer).w2, a.activated, a.middle, out);
}

// All that the backward reads.
void Model::forward_to_activated(std::size_t layer) {
  const BlockActivations& a = plan_.blocks[layer];
  const BlockPlaces p = places(layer);
  forward_to_o(layer);
  linear_onto(p.o, a.o, a.x, a.middle);
  norm(p.feed_forward_norm, a.middle, a.feed_forward_normed, a.feed_forward_statistics);
  linear(p.w1, shape_.hidden_parts(), a.feed_forward_normed, a.hidden);
  activate(layer);
}

void Model::forward_to_o(std::size_t layer) {
  const BlockActivations& a = plan_.blocks[layer];
  const BlockPlaces p = places(layer);
  norm(p.attention_norm, a.x, a.attention_normed, a.attention_statistics);
  linear(p.q, 3, a.attention_normed, a.qkv);
  if (!is_gpt2()) turn(layer, a.qkv, ops::Turn::forward);
  attend(layer);
}

// --- backward --------------------------------------------------------------------------------------------------------

void Model::backward(Into into, Updates updates) {
  gradients_into_ = into;
  updates_ = updates;
  phase_ = Phase::backward;
  const std::size_t layers = plan_.blocks.size(), final_norm = places(layers).attention_norm;
  linear_backward(parameters_.size() - 1, 1, plan_.logits, plan_.normed, plan_.d_narrow);
  norm_backward(final_norm, plan_.x, plan_.statistics, plan_.d_x, Into::set);
  update_beside(final_norm, parameters_.size());
  for (std::size_t layer = layers; layer-- > 0;) backward_block(layer);
  embed_backward();
  update_beside(0, places(0).attention_norm);
}

// d_x: of what the block gave, then of what it got. Gradients of hidden lie where it does. Where blocks share what is
// made again, it is still the last block's when the backward begins.
void Model::backward_block(std::size_t layer) {
  const BlockActivations& a = plan_.blocks[layer];
  const BlockPlaces p = places(layer);
  const Recompute again = layer + 1 < plan_.blocks.size() ? recompute_ : Recompute::none;
  if (again == Recompute::block) forward_to_activated(layer);
  linear_backward(p.w2, 1, plan_.d_x, a.activated, plan_.d_wide);
  update_beside(p.w2, places(layer + 1).attention_norm);
  activate_backward(layer);
  linear_backward(p.w1, shape_.hidden_parts(), a.hidden, a.feed_forward_normed, plan_.d_narrow);
  norm_backward(p.feed_forward_norm, a.middle, a.feed_forward_statistics, plan_.d_x, Into::sum);
  update_beside(p.feed_forward_norm, p.w2);

  if (again == Recompute::attention) forward_to_o(layer);
  linear_backward(p.o, 1, plan_.d_x, a.o, plan_.d_narrow);
  update_beside(p.o, p.feed_forward_norm);
  attend_backward(layer);
  if (!is_gpt2()) turn(layer, plan_.d_wide, ops::Turn::back);
  linear_backward(p.q, 3, plan_.d_wide, a.attention_normed, plan_.d_narrow);
  norm_backward(p.attention_norm, a.x, a.attention_statistics, plan_.d_x, Into::sum);
  update_beside(p.attention_norm, p.o);
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
  if (is_materialised()) return attend_materialised(layer);
  const BlockActivations& a = plan_.blocks[layer];
  const std::array<std::int64_t, 4> heads{batch_, shape_.heads, shape_.context, shape_.head_dim()};
  const Recorded scope = a.lse == kNoTensor ? recorded_attention(Pass::forward, layer, {a.qkv}, {a.o})
                                            : recorded_attention(Pass::forward, layer, {a.qkv}, {a.o, a.lse});
  strobe::forward(attention(a.qkv), {.o = view_bshd<void>(at(a.o), dtype_, heads), .lse = floats(a.lse)}, execution());
}

// d_narrow: of o; d_wide: of q, k and v.
void Model::attend_backward(std::size_t layer) const {
  if (is_materialised()) return attend_materialised_backward(layer);
  const BlockActivations& a = plan_.blocks[layer];
  const std::array<std::int64_t, 4> heads{batch_, shape_.heads, shape_.context, shape_.head_dim()};
  const auto in = [&](std::size_t tensor) { return view_bshd<const void>(at(tensor), dtype_, heads); };
  const auto out = [&](int which) { return view_packed_qkv<void>(at(plan_.d_wide), dtype_, heads, which); };
  const Recorded scope = recorded_attention(Pass::backward, layer, {a.qkv, a.o, a.lse, plan_.d_narrow},
                                            {rows(plan_.d_wide, 3 * shape_.d_model)});
  strobe::backward(attention(a.qkv), {.o = in(a.o), .lse = floats(a.lse), .d_o = in(plan_.d_narrow)},
                   {.dq = out(0), .dk = out(1), .dv = out(2)}, execution());
}

void Model::attend_materialised(std::size_t layer) const {
  const BlockActivations& a = plan_.blocks[layer];
  const Recorded scope = recorded_attention(Pass::forward, layer, {a.qkv}, {a.probabilities, a.o});
  ops::attention(place_, materialised_attention(shape_, batch_, dtype_), at(a.qkv), at(a.probabilities), at(a.o));
}

void Model::attend_materialised_backward(std::size_t layer) const {
  const BlockActivations& a = plan_.blocks[layer];
  const Recorded scope = recorded_attention(Pass::backward, layer, {a.qkv, a.probabilities, plan_.d_narrow},
                                            {rows(plan_.d_wide, 3 * shape_.d_model), plan_.d_scores});
  ops::attention_backward(backward_place(), materialised_attention(shape_, batch_, dtype_),
                          {.qkv = at(a.qkv),
                           .probabilities = at(a.probabilities),
                           .d_o = at(plan_.d_narrow),
                           .d_scores = at(plan_.d_scores),
                           .d_qkv = at(plan_.d_wide)});
}

}  // namespace strobe::lm
