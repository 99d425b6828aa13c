// Implements the memory plan of a step or a forward pass.
#include "lm/models/activations.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/checked_product.h"
#include "core/divide.h"
#include "core/fail.h"

namespace strobe::lm {

namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 60;  // limit per plan, so adding one tensor cannot overflow

// Models with at least this many parameters use GradientMemory::over_copies. At the size 2.7B (3.4 billion parameters),
// this is not slower than overlapped updates. At the size xl (1,998,235,200 parameters) and smaller sizes, it is up to
// 2 % slower where measured (docs/training.md).
constexpr std::int64_t kManyParameters = 2'000'000'000;

[[noreturn]] void refuse_bytes(const ModelShape& shape, std::int64_t batch) {
  fail(ErrorCode::invalid_argument, "lm: activations of batch {} of {} tokens take more than 2^60 bytes", batch,
       shape.context);
}

// Returns the tokens per batch. Throws if the widest tensor exceeds 2^60 bytes, so that no other size overflows.
std::int64_t checked_tokens(const ModelShape& shape, std::int64_t batch, AttentionMemory attention) {
  const std::int64_t scores = shape.heads * (attention == AttentionMemory::materialised ? shape.context : 1);
  const std::int64_t widest =
      std::max({3 * shape.d_model, shape.hidden_parts() * shape.d_ff, shape.vocabulary, scores});
  const std::optional<std::int64_t> bytes =
      checked_product({batch, shape.context, widest, static_cast<std::int64_t>(sizeof(float))});
  if (!bytes || *bytes > static_cast<std::int64_t>(kMostBytes)) refuse_bytes(shape, batch);
  return batch * shape.context;
}

class PlanBuilder {
 public:
  PlanBuilder(const ModelShape& shape, std::int64_t batch, DType dtype, const PlanOptions& options)
      : shape_(shape),
        options_(options),
        dtype_(dtype),
        definition_(shape.definition()),
        batch_(batch),
        tokens_(checked_tokens(shape, batch, options.attention)),
        wide_(tokens_ * shape.d_model),
        heads_(shape.heads / options.parts),
        heads_wide_(tokens_ * heads_ * shape.head_dim()),
        hidden_(tokens_ * (shape.d_ff / options.parts)),
        words_(ceil_div(shape.vocabulary, options.parts)) {
    plan_.architecture = shape.architecture;
  }

  ActivationPlan for_training() {
    add_gradients();
    plan_.d_end = plan_.bytes;
    BlockActivations shared;
    if (options_.recompute != Recompute::none) add_attention("block.", shared);
    if (options_.recompute == Recompute::block) add_feed_forward("block.", shared);
    std::size_t x = add("embedding", wide_);
    for (std::int64_t layer = 0; layer < shape_.layers; ++layer) {
      const std::string name = fmt::format("layers.{}.", layer);
      BlockActivations block = shared;
      block.x = x;
      if (options_.recompute == Recompute::none) add_attention(name, block);
      if (options_.recompute != Recompute::block) add_feed_forward(name, block);
      add_copies(fmt::format("layers.{}", layer), first_of(layer), first_of(layer + 1));
      block.end = plan_.bytes;
      plan_.blocks.push_back(block);
      x = add(name + "out", wide_);
    }
    plan_.x = x;
    add_copies("unembedding", first_of(shape_.layers), parameters_.size());
    plan_.statistics = add_statistics("norm");
    plan_.normed = add("norm", wide_);
    plan_.logits = add("logits", tokens_ * words_);
    return std::move(plan_);
  }

  // Returns the plan of a forward pass. The residual stream is updated in place. Attention, the feed-forward layer and
  // the logits use the same memory, and so do all blocks.
  ActivationPlan for_forward() {
    BlockActivations block;
    block.x = block.middle = plan_.x = add("block.x", wide_);
    block.attention_statistics = block.feed_forward_statistics = plan_.statistics = add_statistics("block.norm");
    const std::size_t begin = next_;
    block.attention_normed = block.feed_forward_normed = plan_.normed = add("block.norm", wide_);
    const std::size_t after_norm = next_;
    block.qkv = add("block.attention.qkv", 3 * heads_wide_);
    if (is_materialised()) block.probabilities = add_scores("block.attention.probabilities");
    next_ = begin;  // o overwrites the norm's output, which only q, k and v read
    block.o = add("block.attention.o", heads_wide_);
    next_ = after_norm;
    add_hidden("block.", block);
    next_ = after_norm;
    plan_.logits = add("logits", tokens_ * words_);
    plan_.blocks.assign(static_cast<std::size_t>(shape_.layers), block);
    return std::move(plan_);
  }

 private:
  // Adds a tensor at next_.
  std::size_t add(std::string name, std::int64_t count, DType dtype, Activation::Kind kind = Activation::Kind::plain) {
    plan_.table.push_back({std::move(name), count, dtype, next_, kind});
    next_ += (plan_.table.back().bytes() + 63) / 64 * 64;
    if (next_ > kMostBytes) refuse_bytes(shape_, batch_);
    plan_.bytes = std::max(plan_.bytes, next_);
    return plan_.table.size() - 1;
  }
  std::size_t add(std::string name, std::int64_t count) { return add(std::move(name), count, dtype_); }

  std::size_t add_statistics(const std::string& norm) {
    return add(norm + "." + definition_.statistics, definition_.statistics_per_token * tokens_, DType::fp32);
  }

  std::size_t add_scores(std::string name) {
    return add(std::move(name), tokens_ * heads_ * shape_.context, dtype_, Activation::Kind::scores);
  }

  void add_attention(const std::string& name, BlockActivations& block) {
    block.attention_statistics = add_statistics(name + "attention_norm");
    block.attention_normed = add(name + "attention_norm", wide_);
    block.qkv = add(name + "attention.qkv", 3 * heads_wide_);
    if (is_materialised()) block.probabilities = add_scores(name + "attention.probabilities");
    block.o = add(name + "attention.o", heads_wide_);
    if (!is_materialised()) block.lse = add(name + "attention.lse", tokens_ * heads_, DType::fp32);
  }

  void add_feed_forward(const std::string& name, BlockActivations& block) {
    block.middle = add(name + "middle", wide_);
    block.feed_forward_statistics = add_statistics(name + "feed_forward_norm");
    block.feed_forward_normed = add(name + "feed_forward_norm", wide_);
    add_hidden(name, block);
  }

  void add_hidden(const std::string& name, BlockActivations& block) {
    block.hidden = add(name + "feed_forward." + definition_.hidden, definition_.hidden_parts * hidden_);
    block.activated = add(name + "feed_forward." + definition_.activated, hidden_);
  }

  void add_gradients() {
    plan_.d_x = add("gradient of x", wide_);
    plan_.d_narrow = add("gradient of a norm or of o", wide_);
    plan_.d_wide =
        add(fmt::format("gradient of {} or of qkv", definition_.activated), std::max(hidden_, 3 * heads_wide_));
    if (is_materialised()) plan_.d_scores = add_scores("gradient of attention.probabilities");
  }

  // Adds copies of the parameters [begin, end).
  void add_copies(const std::string& name, std::size_t begin, std::size_t end) {
    if (options_.gradients != GradientMemory::over_copies || dtype_ == DType::fp32) return;
    const std::int64_t count = parameters_[end - 1].first + parameters_[end - 1].count() - parameters_[begin].first;
    plan_.copies.push_back({begin, add(name + " as matmuls read it", count)});
  }

  std::size_t first_of(std::int64_t layer) const {
    return first_parameter(shape_.architecture, static_cast<std::size_t>(layer));
  }
  bool is_materialised() const { return options_.attention == AttentionMemory::materialised; }

  const ModelShape& shape_;
  const PlanOptions options_;
  const DType dtype_;
  const Definition& definition_;
  const std::int64_t batch_, tokens_;
  // wide_: elements of x. Per tensor-parallel device: heads_, heads_wide_ (elements of o), hidden_ (elements of one
  // feed-forward tensor) and words_ (vocabulary size).
  const std::int64_t wide_, heads_, heads_wide_, hidden_, words_;
  const std::vector<Parameter> parameters_ = parameter_table(shape_);
  ActivationPlan plan_;
  std::size_t next_ = 0;  // byte offset of the next tensor
};

}  // namespace

AttentionMemory attention_memory_of(std::string_view kernel) {
  return kernel == "standard" ? AttentionMemory::materialised : AttentionMemory::fused;
}

GradientMemory step_memory(const ModelShape& shape, DType dtype) {
  const bool compact = dtype != DType::fp32 && parameter_count(shape) >= kManyParameters;
  return compact ? GradientMemory::over_copies : GradientMemory::shared;
}

ActivationPlan activation_plan(const ModelShape& shape, std::int64_t batch, DType dtype, const PlanOptions& options) {
  if (options.gradients == GradientMemory::over_copies && options.parts > 1) {
    fail(ErrorCode::invalid_argument,
         "lm: gradients share memory with the parameter copies of {} tensor-parallel devices; valid: 1", options.parts);
  }
  PlanBuilder builder(shape, batch, dtype, options);
  return options.gradients == GradientMemory::none ? builder.for_forward() : builder.for_training();
}

const Copies* copies_with(const ActivationPlan& plan, std::size_t parameter) {
  const auto after = std::upper_bound(plan.copies.begin(), plan.copies.end(), parameter,
                                      [](std::size_t one, const Copies& copies) { return one < copies.parameter; });
  return after == plan.copies.begin() ? nullptr : &after[-1];
}

std::size_t gradients_at(const ActivationPlan& plan, const std::vector<Parameter>& parameters, GradientMemory memory) {
  constexpr std::size_t kAlignment = 256;
  std::size_t first = plan.bytes;
  if (memory != GradientMemory::own && memory != GradientMemory::none) {
    // Backward writes parameter gradients from the last parameter to the first. When it writes the gradients of a
    // block, it no longer reads the activations of later blocks. So a block's gradients may begin after that block's
    // activations.
    const auto least = [&](std::size_t end, std::size_t parameter) {
      const auto before = static_cast<std::size_t>(parameters[parameter].first) * sizeof(float);
      first = std::max(first, end > before ? end - before : 0);
    };
    first = plan.d_end;
    for (std::size_t layer = 0; layer < plan.blocks.size(); ++layer) {
      least(plan.blocks[layer].end, first_parameter(plan.architecture, layer));
    }
    least(plan.bytes, first_parameter(plan.architecture, plan.blocks.size()));
  }
  return round_up(first, kAlignment);
}

}  // namespace strobe::lm
