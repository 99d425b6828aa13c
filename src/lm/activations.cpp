#include "lm/activations.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/checked_product.h"
#include "core/divide.h"
#include "core/fail.h"

namespace strobe::lm {

namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 60;  // per plan: adding one tensor cannot overflow

// 2.7B, with 3.4 billion, is no slower than with updates beside its backward, and holds less than PyTorch; with fewer,
// xl's 1,998,235,200 included, that was not measured or costs up to 2 % (docs/notes/2026-11-15-lm-cuda.md).
constexpr std::int64_t kManyParameters = 2'000'000'000;

[[noreturn]] void refuse_bytes(const ModelShape& shape, std::int64_t batch) {
  fail(ErrorCode::invalid_argument, "lm: activations of batch {} of {} tokens take more than 2^60 bytes", batch,
       shape.context);
}

// Tokens per batch. Throws if the widest tensor has more than 2^60 bytes, so that no other size overflows.
std::int64_t checked_tokens(const ModelShape& shape, std::int64_t batch) {
  const std::int64_t widest =
      std::max({3 * shape.d_model, shape.hidden_parts() * shape.d_ff, shape.vocabulary, shape.heads});
  const std::optional<std::int64_t> bytes =
      checked_product({batch, shape.context, widest, static_cast<std::int64_t>(sizeof(float))});
  if (!bytes || *bytes > static_cast<std::int64_t>(kMostBytes)) refuse_bytes(shape, batch);
  return batch * shape.context;
}

}  // namespace

GradientMemory step_memory(const ModelShape& shape, DType dtype) {
  const bool compact = dtype != DType::fp32 && parameter_count(shape) >= kManyParameters;
  return compact ? GradientMemory::over_copies : GradientMemory::shared;
}

ActivationPlan activation_plan(const ModelShape& shape, std::int64_t batch, DType dtype, Recompute recompute,
                               GradientMemory memory, std::int64_t parts) {
  const bool is_gpt2 = shape.architecture == Architecture::gpt2;
  if (memory == GradientMemory::over_copies && parts > 1) {
    fail(ErrorCode::invalid_argument, "lm: gradients over copies, in {} parts; valid: 1", parts);
  }
  ActivationPlan plan;
  plan.architecture = shape.architecture;
  const auto add = [&](std::string name, std::int64_t count, DType type) {
    const std::size_t first = plan.bytes;
    plan.table.push_back({std::move(name), count, type, first});
    plan.bytes += (plan.table.back().bytes() + 63) / 64 * 64;
    if (plan.bytes > kMostBytes) refuse_bytes(shape, batch);
    return first;
  };
  const std::int64_t tokens = checked_tokens(shape, batch), wide = tokens * shape.d_model;
  const std::int64_t heads = shape.heads / parts, heads_wide = tokens * heads * shape.head_dim();
  const std::int64_t hidden = tokens * (shape.d_ff / parts), words = ceil_div(shape.vocabulary, parts);
  const auto add_statistics = [&](const std::string& norm) {
    return is_gpt2 ? add(norm + ".statistics", 2 * tokens, DType::fp32) : add(norm + ".inverse", tokens, DType::fp32);
  };
  const auto add_attention = [&](const std::string& name, BlockActivations& block) {
    block.attention_statistics = add_statistics(name + "attention_norm");
    block.attention_normed = add(name + "attention_norm", wide, dtype);
    block.qkv = add(name + "attention.qkv", 3 * heads_wide, dtype);
    block.o = add(name + "attention.o", heads_wide, dtype);
    block.lse = add(name + "attention.lse", tokens * heads, DType::fp32);
  };
  const auto add_feed_forward = [&](const std::string& name, BlockActivations& block) {
    block.middle = add(name + "middle", wide, dtype);
    block.feed_forward_statistics = add_statistics(name + "feed_forward_norm");
    block.feed_forward_normed = add(name + "feed_forward_norm", wide, dtype);
    block.hidden =
        add(name + (is_gpt2 ? "feed_forward.w1" : "feed_forward.w1w3"), shape.hidden_parts() * hidden, dtype);
    block.activated = add(name + (is_gpt2 ? "feed_forward.gelu" : "feed_forward.gated"), hidden, dtype);
  };
  plan.d_x = add("gradient of x", wide, dtype);
  plan.d_narrow = add("gradient of a norm or of o", wide, dtype);
  plan.d_wide = add(is_gpt2 ? "gradient of gelu or of qkv" : "gradient of gated or of qkv",
                    std::max(hidden, 3 * heads_wide), dtype);
  const std::vector<Parameter> parameters = parameter_table(shape);
  const auto add_copies = [&](const char* name, std::size_t begin, std::size_t end) {
    if (memory != GradientMemory::over_copies || dtype == DType::fp32) return;
    const std::int64_t count = parameters[end - 1].first + parameters[end - 1].count() - parameters[begin].first;
    plan.copies.push_back({begin, add(fmt::format("{} as products read it", name), count, dtype)});
  };
  const auto first_of = [&](std::int64_t layer) {
    return block_places(shape.architecture, static_cast<std::size_t>(layer)).attention_norm;
  };
  plan.d_end = plan.bytes;
  BlockActivations shared{};
  if (recompute != Recompute::none) add_attention("block.", shared);
  if (recompute == Recompute::block) add_feed_forward("block.", shared);
  std::size_t x = add("embedding", wide, dtype);
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string name = fmt::format("layers.{}.", layer);
    BlockActivations block = shared;
    block.x = x;
    if (recompute == Recompute::none) add_attention(name, block);
    if (recompute != Recompute::block) add_feed_forward(name, block);
    add_copies(fmt::format("layers.{}", layer).c_str(), first_of(layer), first_of(layer + 1));
    block.end = plan.bytes;
    plan.blocks.push_back(block);
    x = add(fmt::format("layers.{}.out", layer), wide, dtype);
  }
  plan.x = x;
  add_copies("unembedding", first_of(shape.layers), parameters.size());
  plan.statistics = add_statistics("norm");
  plan.normed = add("norm", wide, dtype);
  plan.logits = add("logits", tokens * words, dtype);
  return plan;
}

const Copies* copies_with(const ActivationPlan& plan, std::size_t parameter) {
  const auto after = std::upper_bound(plan.copies.begin(), plan.copies.end(), parameter,
                                      [](std::size_t one, const Copies& copies) { return one < copies.parameter; });
  return after == plan.copies.begin() ? nullptr : &after[-1];
}

std::size_t gradients_at(const ActivationPlan& plan, const std::vector<Parameter>& parameters, GradientMemory memory) {
  constexpr std::size_t kAlignment = 256;
  std::size_t first = plan.bytes;
  if (memory != GradientMemory::own) {
    // Gradients are written from the last to the first: those of a block from first(block) on, when what lies beyond
    // its own activations is read no more.
    const auto least = [&](std::size_t end, std::size_t parameter) {
      const auto before = static_cast<std::size_t>(parameters[parameter].first) * sizeof(float);
      first = std::max(first, end > before ? end - before : 0);
    };
    first = plan.d_end;
    for (std::size_t layer = 0; layer < plan.blocks.size(); ++layer) {
      least(plan.blocks[layer].end, block_places(plan.architecture, layer).attention_norm);
    }
    least(plan.bytes, block_places(plan.architecture, plan.blocks.size()).attention_norm);
  }
  return round_up(first, kAlignment);
}

}  // namespace strobe::lm
