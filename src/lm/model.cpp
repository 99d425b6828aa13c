// What model.h says, operation by operation.
#include "lm/model.h"

#include <array>
#include <cstring>

#include "core/fail.h"
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

// Places in the table of parameters: one embedding, nine of a block, a norm, the unembedding.
constexpr std::size_t kEmbedding = 0, kOfABlock = 9;
enum Part : std::size_t { kAttentionNorm, kQ, kK, kV, kO, kFeedForwardNorm, kW1, kW3, kW2 };
std::size_t part(std::size_t layer, Part which) { return 1 + layer * kOfABlock + which; }

std::int64_t checked(std::int64_t batch) {
  constexpr std::int64_t kMost = 1 << 20;
  if (batch < 1 || batch > kMost) fail(ErrorCode::invalid_argument, "lm: batch {}; valid: 1 to {}", batch, kMost);
  return batch;
}

std::size_t bytes_of(std::int64_t count, DType dtype) { return static_cast<std::size_t>(count) * size_of(dtype); }

}  // namespace

Model::Model(const ModelShape& shape, std::int64_t batch, DType dtype, const ops::Place& place)
    : shape_(shape),
      batch_(checked(batch)),
      tokens_(batch * shape.context),
      dtype_(dtype),
      place_(place),
      parameters_(parameter_table(shape)),
      plan_(activation_plan(shape, batch, dtype)),
      rope_(ops::rope_table(shape.context, shape.head_dim())),
      values_(bytes_of(parameter_count(shape), DType::fp32)),
      gradients_(values_.bytes()),
      mean_(values_.bytes()),
      variance_(values_.bytes()),
      copies_(dtype == DType::fp32 ? 0 : bytes_of(parameter_count(shape), dtype)),
      activations_(plan_.bytes) {
  for (const Parameter& parameter : parameters_) {
    const std::int64_t first = parameter.first;
    void* const copy = dtype == DType::fp32 ? nullptr : static_cast<char*>(copies_.data()) + bytes_of(first, dtype);
    trained_.push_back({.count = parameter.count(),
                        .value = values_.as<float>() + first,
                        .gradient = gradients_.as<float>() + first,
                        .mean = mean_.as<float>() + first,
                        .variance = variance_.as<float>() + first,
                        .copy = copy,
                        .copy_dtype = dtype});
  }
}

void Model::begin(std::uint64_t seed) {
  for (const Parameter& parameter : parameters_) {
    begin_values(parameter, seed, place_.threads, values_.as<float>() + parameter.first);
  }
  clear_gradients();
  std::memset(mean_.data(), 0, mean_.bytes());
  std::memset(variance_.data(), 0, variance_.bytes());
  copy_values();
}

void Model::clear_gradients() { std::memset(gradients_.data(), 0, gradients_.bytes()); }

const void* Model::weight(std::size_t parameter) const {
  const ops::Trained& one = trained_[parameter];
  return one.copy ? one.copy : one.value;
}

void Model::check_tokens(const char* what, const std::int32_t* tokens) const {
  for (std::int64_t t = 0; t < tokens_; ++t) {
    if (tokens[t] < 0 || tokens[t] >= shape_.vocabulary) {
      fail(ErrorCode::invalid_argument, "lm: {} {} is {}; valid: 0 to {}", what, t, tokens[t], shape_.vocabulary - 1);
    }
  }
}

double Model::loss(const std::int32_t* tokens, const std::int32_t* targets) {
  check_tokens("target", targets);
  forward(tokens);
  ops::cross_entropy(place_, {.rows = tokens_, .vocabulary = shape_.vocabulary, .dtype = dtype_}, at(plan_.logits),
                     targets, floats(plan_.losses));
  return ops::mean_of(floats(plan_.losses), tokens_);
}

double Model::loss_with_gradients(const std::int32_t* tokens, const std::int32_t* targets, float gradient_scale) {
  check_tokens("target", targets);
  forward(tokens);
  ops::cross_entropy_with_gradient(
      place_, {.rows = tokens_, .vocabulary = shape_.vocabulary, .dtype = dtype_, .gradient_scale = gradient_scale},
      at(plan_.logits), targets, floats(plan_.losses));
  backward(tokens);
  return ops::mean_of(floats(plan_.losses), tokens_);
}

// --- forward ---------------------------------------------------------------------------------------------------------

void Model::forward(const std::int32_t* tokens) {
  check_tokens("token", tokens);
  const std::size_t final_norm = parameters_.size() - 2, unembedding = parameters_.size() - 1;
  ops::embedding(place_, {tokens_, shape_.vocabulary, shape_.d_model, dtype_}, tokens, value(kEmbedding),
                 at(plan_.blocks[0].x));
  for (std::size_t layer = 0; layer < plan_.blocks.size(); ++layer) {
    forward_block(layer, layer + 1 < plan_.blocks.size() ? plan_.blocks[layer + 1].x : plan_.x);
  }
  norm(final_norm, plan_.x, plan_.normed, plan_.inverse);
  linear(unembedding, plan_.normed, plan_.logits);
}

void Model::forward_block(std::size_t layer, std::size_t out) {
  const BlockActivations& a = plan_.blocks[layer];
  const std::size_t bytes = bytes_of(tokens_ * shape_.d_model, dtype_);
  norm(part(layer, kAttentionNorm), a.x, a.attention_normed, a.attention_inverse);
  linear(part(layer, kQ), a.attention_normed, a.q);
  linear(part(layer, kK), a.attention_normed, a.k);
  linear(part(layer, kV), a.attention_normed, a.v);
  turn(a.q, ops::Turn::forward);
  turn(a.k, ops::Turn::forward);
  const std::array<std::int64_t, 4> heads{batch_, shape_.heads, shape_.context, shape_.head_dim()};
  const auto in = [&](std::size_t tensor) { return view_bshd<const void>(at(tensor), dtype_, heads); };
  strobe::forward({.q = in(a.q), .k = in(a.k), .v = in(a.v), .causal = true},
                  {.o = view_bshd<void>(at(a.o), dtype_, heads), .lse = floats(a.lse)},
                  {.device = place_.device, .threads = place_.threads});
  std::memcpy(at(a.middle), at(a.x), bytes);
  linear(part(layer, kO), a.o, a.middle, Into::sum);

  norm(part(layer, kFeedForwardNorm), a.middle, a.feed_forward_normed, a.feed_forward_inverse);
  linear(part(layer, kW1), a.feed_forward_normed, a.w1);
  linear(part(layer, kW3), a.feed_forward_normed, a.w3);
  ops::swiglu(place_, dtype_, tokens_ * shape_.d_ff, at(a.w1), at(a.w3), at(a.gated));
  std::memcpy(at(out), at(a.middle), bytes);
  linear(part(layer, kW2), a.gated, out, Into::sum);
}

// --- backward --------------------------------------------------------------------------------------------------------

void Model::backward(const std::int32_t* tokens) {
  const std::size_t final_norm = parameters_.size() - 2, unembedding = parameters_.size() - 1;
  linear_backward(unembedding, plan_.logits, plan_.normed, plan_.d_normed, Into::set);
  norm_backward(final_norm, plan_.x, plan_.inverse, plan_.d_normed, plan_.d_x, Into::set);
  for (std::size_t layer = plan_.blocks.size(); layer-- > 0;) backward_block(layer);
  ops::embedding_backward(place_, {tokens_, shape_.vocabulary, shape_.d_model, dtype_}, tokens, at(plan_.d_x),
                          gradient(kEmbedding));
}

// d_x: of what the block gave, then of what it got. Gradients of w1 and w3 lie where these do.
void Model::backward_block(std::size_t layer) {
  const BlockActivations& a = plan_.blocks[layer];
  linear_backward(part(layer, kW2), plan_.d_x, a.gated, plan_.d_gated, Into::set);
  ops::swiglu_backward(place_, dtype_, tokens_ * shape_.d_ff, at(a.w1), at(a.w3), at(plan_.d_gated), at(a.w1),
                       at(a.w3));
  linear_backward(part(layer, kW1), a.w1, a.feed_forward_normed, plan_.d_normed, Into::set);
  linear_backward(part(layer, kW3), a.w3, a.feed_forward_normed, plan_.d_normed, Into::sum);
  norm_backward(part(layer, kFeedForwardNorm), a.middle, a.feed_forward_inverse, plan_.d_normed, plan_.d_x, Into::sum);

  linear_backward(part(layer, kO), plan_.d_x, a.o, plan_.d_o, Into::set);
  const std::array<std::int64_t, 4> heads{batch_, shape_.heads, shape_.context, shape_.head_dim()};
  const auto in = [&](std::size_t tensor) { return view_bshd<const void>(at(tensor), dtype_, heads); };
  const auto out = [&](std::size_t tensor) { return view_bshd<void>(at(tensor), dtype_, heads); };
  strobe::backward({.q = in(a.q), .k = in(a.k), .v = in(a.v), .causal = true},
                   {.o = in(a.o), .lse = floats(a.lse), .d_o = in(plan_.d_o)},
                   {.dq = out(plan_.d_q), .dk = out(plan_.d_k), .dv = out(plan_.d_v)},
                   {.device = place_.device, .threads = place_.threads});
  turn(plan_.d_q, ops::Turn::back);
  turn(plan_.d_k, ops::Turn::back);
  linear_backward(part(layer, kQ), plan_.d_q, a.attention_normed, plan_.d_normed, Into::set);
  linear_backward(part(layer, kK), plan_.d_k, a.attention_normed, plan_.d_normed, Into::sum);
  linear_backward(part(layer, kV), plan_.d_v, a.attention_normed, plan_.d_normed, Into::sum);
  norm_backward(part(layer, kAttentionNorm), a.x, a.attention_inverse, plan_.d_normed, plan_.d_x, Into::sum);
}

// --- one operation each ----------------------------------------------------------------------------------------------

void Model::linear(std::size_t parameter, std::size_t x, std::size_t y, Into into) const {
  const auto& [out, in] = parameters_[parameter].shape;
  ops::linear(place_, {tokens_, in, out, dtype_}, at(x), weight(parameter), at(y), into);
}

void Model::linear_backward(std::size_t parameter, std::size_t dy, std::size_t x, std::size_t dx, Into into) const {
  const auto& [out, in] = parameters_[parameter].shape;
  const ops::Linear shape{tokens_, in, out, dtype_};
  ops::linear_backward_weight(place_, shape, at(dy), at(x), gradient(parameter));
  ops::linear_backward_input(place_, shape, at(dy), weight(parameter), at(dx), into);
}

void Model::norm(std::size_t parameter, std::size_t x, std::size_t y, std::size_t inverse) const {
  ops::rms_norm(place_, {.rows = tokens_, .width = shape_.d_model, .dtype = dtype_}, at(x), value(parameter), at(y),
                floats(inverse));
}

void Model::norm_backward(std::size_t parameter, std::size_t x, std::size_t inverse, std::size_t dy, std::size_t dx,
                          Into into) const {
  ops::rms_norm_backward(place_, {.rows = tokens_, .width = shape_.d_model, .dtype = dtype_}, at(x), value(parameter),
                         floats(inverse), at(dy), at(dx), into, gradient(parameter));
}

void Model::turn(std::size_t x, ops::Turn direction) const {
  ops::rope(place_, {tokens_, shape_.heads, shape_.head_dim(), shape_.context, 0, dtype_}, rope_.data(), at(x),
            direction);
}

}  // namespace strobe::lm
