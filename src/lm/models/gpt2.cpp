// gpt2: learned positions, pre-norm blocks with LayerNorm and GELU; a bias in every linear layer except the
// unembedding.
//   x += o(attention(qkv(norm(x))));  x += w2(gelu(w1(norm(x))))
#include <iterator>

#include "lm/models/decoder.h"
#include "lm/models/transformer.h"

namespace strobe::lm {

using ops::Into;

namespace gpt2 {
namespace {

// --- parameters ------------------------------------------------------------------------------------------------------

constexpr Size kOne = nullptr, kWidth = &ModelShape::d_model, kHidden = &ModelShape::d_ff,
               kContext = &ModelShape::context, kVocabulary = &ModelShape::vocabulary;

constexpr ParameterRow kBefore[] = {{"embedding.weight", kVocabulary, kWidth, Role::embedding},
                                    {"positions.weight", kContext, kWidth, Role::positions}};
constexpr ParameterRow kBlock[] = {
    {"attention_norm.weight", kOne, kWidth, Role::norm},
    {"attention_norm.bias", kOne, kWidth, Role::bias},
    {"attention.q.weight", kWidth, kWidth, Role::linear},
    {"attention.k.weight", kWidth, kWidth, Role::linear},
    {"attention.v.weight", kWidth, kWidth, Role::linear},
    {"attention.q.bias", kOne, kWidth, Role::inner_bias},
    {"attention.k.bias", kOne, kWidth, Role::key_bias},
    {"attention.v.bias", kOne, kWidth, Role::inner_bias},
    {"attention.o.weight", kWidth, kWidth, Role::linear},
    {"attention.o.bias", kOne, kWidth, Role::bias},
    {"feed_forward_norm.weight", kOne, kWidth, Role::norm},
    {"feed_forward_norm.bias", kOne, kWidth, Role::bias},
    {"feed_forward.w1.weight", kHidden, kWidth, Role::linear},
    {"feed_forward.w1.bias", kOne, kHidden, Role::inner_bias},
    {"feed_forward.w2.weight", kWidth, kHidden, Role::linear},
    {"feed_forward.w2.bias", kOne, kWidth, Role::bias},
};
constexpr ParameterRow kAfter[] = {{"norm.weight", kOne, kWidth, Role::norm},
                                   {"norm.bias", kOne, kWidth, Role::bias},
                                   {"unembedding.weight", kVocabulary, kWidth, Role::linear}};

constexpr std::size_t kPositions = 1;
// Rows of kBlock.
enum : std::size_t {
  kAttentionNorm = 0,
  kQ = 2,
  kO = 8,
  kFeedForwardNorm = 10,
  kW1 = 12,
  kW2 = 14,
  kEnd = 16,
};
static_assert(std::size(kBlock) == kEnd);

// --- forward ---------------------------------------------------------------------------------------------------------

void attend(Transformer& m, std::size_t layer) {
  const BlockActivations& a = m.block(layer);
  const std::size_t p = m.first_parameter(layer);
  m.layer_norm(p + kAttentionNorm, a.x, a.attention_normed, a.attention_statistics);
  m.linear({p + kQ, 3}, a.attention_normed, a.qkv);
  m.attention(layer);
}

void activate(Transformer& m, std::size_t layer) {
  const BlockActivations& a = m.block(layer);
  const std::size_t p = m.first_parameter(layer);
  m.linear_onto(p + kO, a.o, a.x, a.middle);
  m.layer_norm(p + kFeedForwardNorm, a.middle, a.feed_forward_normed, a.feed_forward_statistics);
  m.linear(p + kW1, a.feed_forward_normed, a.hidden);
  m.gelu(p + kW1, layer);
}

void forward(Transformer& m) {
  m.embed(kPositions);
  for (std::size_t layer = 0; layer < m.layers(); ++layer) {
    const BlockActivations& a = m.block(layer);
    attend(m, layer);
    activate(m, layer);
    m.linear_onto(m.first_parameter(layer) + kW2, a.activated, a.middle, m.block_output(layer));
  }
  const ActivationPlan& plan = m.plan();
  m.layer_norm(m.first_parameter(m.layers()), plan.x, plan.normed, plan.statistics);
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
  m.gelu_backward(p + kW1, layer);
  m.linear_backward(p + kW1, a.hidden, a.feed_forward_normed, plan.d_narrow);
  m.layer_norm_backward(p + kFeedForwardNorm, a.middle, a.feed_forward_statistics, Into::sum);
  m.updatable(p + kFeedForwardNorm, p + kW2);

  if (m.recompute(layer) == Recompute::attention) attend(m, layer);
  m.linear_backward(p + kO, plan.d_x, a.o, plan.d_narrow);
  m.updatable(p + kO, p + kFeedForwardNorm);
  m.attention_backward(layer);
  m.linear_backward({p + kQ, 3}, plan.d_wide, a.attention_normed, plan.d_narrow);
  m.layer_norm_backward(p + kAttentionNorm, a.x, a.attention_statistics, Into::sum);
  m.updatable(p + kAttentionNorm, p + kO);
}

void backward(Transformer& m) {
  const std::size_t final_norm = m.first_parameter(m.layers());
  m.unembed_backward();
  m.layer_norm_backward(final_norm, m.plan().x, m.plan().statistics, Into::set);
  m.updatable(final_norm, m.parameters().size());
  for (std::size_t layer = m.layers(); layer-- > 0;) backward_block(m, layer);
  m.embed_backward(kPositions);
  m.updatable(0, m.first_parameter(0));
}

}  // namespace
}  // namespace gpt2

extern constinit const Definition kGpt2{.name = "gpt2",
                                        .before_blocks = gpt2::kBefore,
                                        .block = gpt2::kBlock,
                                        .after_blocks = gpt2::kAfter,
                                        .statistics = "statistics",
                                        .statistics_per_token = 2,
                                        .hidden = "w1",
                                        .hidden_parts = 1,
                                        .activated = "gelu",
                                        .has_rope = false,
                                        .forward = gpt2::forward,
                                        .backward = gpt2::backward,
                                        .decode_norm = &Decoder::layer_norm,
                                        .decode_activation = &Decoder::gelu};

}  // namespace strobe::lm
