// llama: pre-norm blocks with RMSNorm, RoPE on q and k, and SwiGLU; no biases.
//   x += o(attention(rope(qkv(norm(x)))));  x += w2(silu(w1(norm(x))) * w3(norm(x)))
#include <iterator>

#include "lm/models/decoder.h"
#include "lm/models/transformer.h"

namespace strobe::lm {

using ops::Into;

namespace llama {
namespace {

// --- parameters ------------------------------------------------------------------------------------------------------

constexpr Size kOne = nullptr, kWidth = &ModelShape::d_model, kHidden = &ModelShape::d_ff,
               kVocabulary = &ModelShape::vocabulary;

constexpr ParameterRow kBefore[] = {{"embedding.weight", kVocabulary, kWidth, Role::embedding}};
constexpr ParameterRow kBlock[] = {
    {"attention_norm.weight", kOne, kWidth, Role::norm},
    {"attention.q.weight", kWidth, kWidth, Role::linear},
    {"attention.k.weight", kWidth, kWidth, Role::linear},
    {"attention.v.weight", kWidth, kWidth, Role::linear},
    {"attention.o.weight", kWidth, kWidth, Role::linear},
    {"feed_forward_norm.weight", kOne, kWidth, Role::norm},
    {"feed_forward.w1.weight", kHidden, kWidth, Role::linear},
    {"feed_forward.w3.weight", kHidden, kWidth, Role::linear},
    {"feed_forward.w2.weight", kWidth, kHidden, Role::linear},
};
constexpr ParameterRow kAfter[] = {{"norm.weight", kOne, kWidth, Role::norm},
                                   {"unembedding.weight", kVocabulary, kWidth, Role::linear}};

// Rows of kBlock.
enum : std::size_t { kAttentionNorm, kQ, kK, kV, kO, kFeedForwardNorm, kW1, kW3, kW2, kEnd };
static_assert(std::size(kBlock) == kEnd);

// --- forward ---------------------------------------------------------------------------------------------------------

void attend(Transformer& m, std::size_t layer) {
  const BlockActivations& a = m.block(layer);
  const std::size_t p = m.first_parameter(layer);
  m.rms_norm(p + kAttentionNorm, a.x, a.attention_normed, a.attention_statistics);
  m.linear({p + kQ, 3}, a.attention_normed, a.qkv);
  m.rope({p + kQ, 2}, a.qkv, ops::Rotation::forward);
  m.attention(layer);
}

void activate(Transformer& m, std::size_t layer) {
  const BlockActivations& a = m.block(layer);
  const std::size_t p = m.first_parameter(layer);
  m.linear_onto(p + kO, a.o, a.x, a.middle);
  m.rms_norm(p + kFeedForwardNorm, a.middle, a.feed_forward_normed, a.feed_forward_statistics);
  m.linear({p + kW1, 2}, a.feed_forward_normed, a.hidden);
  m.swiglu({p + kW1, 2}, layer);
}

void forward(Transformer& m) {
  m.embed();
  for (std::size_t layer = 0; layer < m.layers(); ++layer) {
    const BlockActivations& a = m.block(layer);
    attend(m, layer);
    activate(m, layer);
    m.linear_onto(m.first_parameter(layer) + kW2, a.activated, a.middle, m.block_output(layer));
  }
  const ActivationPlan& plan = m.plan();
  m.rms_norm(m.first_parameter(m.layers()), plan.x, plan.normed, plan.statistics);
  m.unembed();
}

// --- backward --------------------------------------------------------------------------------------------------------

// On entry, d_x is the gradient of the block's output; on return, the gradient of its input.
void backward_block(Transformer& m, std::size_t layer) {
  const BlockActivations& a = m.block(layer);
  const ActivationPlan& plan = m.plan();
  const std::size_t p = m.first_parameter(layer);
  if (m.recompute(layer) == Recompute::block) {
    attend(m, layer);
    activate(m, layer);
  }
  m.linear_backward(p + kW2, plan.d_x, a.activated, plan.d_wide);
  m.updatable(p + kW2, p + kEnd);
  m.swiglu_backward({p + kW1, 2}, layer);
  m.linear_backward({p + kW1, 2}, a.hidden, a.feed_forward_normed, plan.d_narrow);
  m.rms_norm_backward(p + kFeedForwardNorm, a.middle, a.feed_forward_statistics, Into::sum);
  m.updatable(p + kFeedForwardNorm, p + kW2);

  if (m.recompute(layer) == Recompute::attention) attend(m, layer);
  m.linear_backward(p + kO, plan.d_x, a.o, plan.d_narrow);
  m.updatable(p + kO, p + kFeedForwardNorm);
  m.attention_backward(layer);
  m.rope({p + kQ, 2}, plan.d_wide, ops::Rotation::back);
  m.linear_backward({p + kQ, 3}, plan.d_wide, a.attention_normed, plan.d_narrow);
  m.rms_norm_backward(p + kAttentionNorm, a.x, a.attention_statistics, Into::sum);
  m.updatable(p + kAttentionNorm, p + kO);
}

void backward(Transformer& m) {
  const std::size_t final_norm = m.first_parameter(m.layers());
  m.unembed_backward();
  m.rms_norm_backward(final_norm, m.plan().x, m.plan().statistics, Into::set);
  m.updatable(final_norm, m.parameters().size());
  for (std::size_t layer = m.layers(); layer-- > 0;) backward_block(m, layer);
  m.embed_backward();
  m.updatable(0, m.first_parameter(0));
}

}  // namespace
}  // namespace llama

extern constinit const Definition kLlama{.name = "llama",
                                         .before_blocks = llama::kBefore,
                                         .block = llama::kBlock,
                                         .after_blocks = llama::kAfter,
                                         .statistics = "inverse",
                                         .statistics_per_token = 1,
                                         .hidden = "w1w3",
                                         .hidden_parts = 2,
                                         .activated = "gated",
                                         .has_rope = true,
                                         .forward = llama::forward,
                                         .backward = llama::backward,
                                         .decode_norm = &Decoder::rms_norm,
                                         .decode_activation = &Decoder::swiglu};

}  // namespace strobe::lm
