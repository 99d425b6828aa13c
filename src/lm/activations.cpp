#include "lm/activations.h"

#include <fmt/format.h>

namespace strobe::lm {

ActivationPlan activation_plan(const ModelShape& shape, std::int64_t batch, DType dtype) {
  ActivationPlan plan;
  const auto add = [&](std::string name, std::int64_t count, DType type) {
    const std::size_t first = plan.bytes;
    plan.table.push_back({std::move(name), count, type, first});
    plan.bytes += (plan.table.back().bytes() + 63) / 64 * 64;
    return first;
  };
  const std::int64_t tokens = batch * shape.context, wide = tokens * shape.d_model, hidden = tokens * shape.d_ff;
  const auto add_block = [&](const std::string& name) {
    const auto tensor = [&](const char* part, std::int64_t count) { return add(name + part, count, dtype); };
    BlockActivations block{};
    block.attention_inverse = add(name + "attention_norm.inverse", tokens, DType::fp32);
    block.attention_normed = tensor("attention_norm", wide);
    block.q = tensor("attention.q", wide);
    block.k = tensor("attention.k", wide);
    block.v = tensor("attention.v", wide);
    block.o = tensor("attention.o", wide);
    block.lse = add(name + "attention.lse", tokens * shape.heads, DType::fp32);
    block.middle = tensor("middle", wide);
    block.feed_forward_inverse = add(name + "feed_forward_norm.inverse", tokens, DType::fp32);
    block.feed_forward_normed = tensor("feed_forward_norm", wide);
    block.w1 = tensor("feed_forward.w1", hidden);
    block.w3 = tensor("feed_forward.w3", hidden);
    block.gated = tensor("feed_forward.gated", hidden);
    return block;
  };
  std::size_t x = add("embedding", wide, dtype);
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    BlockActivations block = add_block(fmt::format("layers.{}.", layer));
    block.x = x;
    plan.blocks.push_back(block);
    x = add(fmt::format("layers.{}.out", layer), wide, dtype);
  }
  plan.x = x;
  plan.inverse = add("norm.inverse", tokens, DType::fp32);
  plan.normed = add("norm", wide, dtype);
  plan.logits = add("logits", tokens * shape.vocabulary, dtype);
  plan.losses = add("losses", tokens, DType::fp32);
  plan.d_x = add("gradient of x", wide, dtype);
  plan.d_normed = add("gradient of a norm", wide, dtype);
  plan.d_q = add("gradient of q", wide, dtype);
  plan.d_k = add("gradient of k", wide, dtype);
  plan.d_v = add("gradient of v", wide, dtype);
  plan.d_o = add("gradient of o", wide, dtype);
  plan.d_gated = add("gradient of gated", hidden, dtype);
  return plan;
}

}  // namespace strobe::lm
