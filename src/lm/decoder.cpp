#include "lm/decoder.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include <fmt/format.h>

#include "core/fail.h"
#include "lm/parameters.h"
#include "ops/embedding.h"
#include "ops/gelu.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/swiglu.h"
#include "strobe/attention.h"

namespace strobe::lm {

Decoder::Decoder(const ModelShape& shape, std::span<const float> values, int threads)
    : shape_(shape), threads_(threads) {
  if (static_cast<std::int64_t>(values.size()) != parameter_count(shape)) {
    fail(ErrorCode::invalid_argument, "lm: {} values; the shape has {} parameters", values.size(),
         parameter_count(shape));
  }
  std::map<std::string, const float*> weights;
  for (const Parameter& parameter : parameter_table(shape)) weights[parameter.name] = values.data() + parameter.first;
  const auto named = [&](const std::string& name) {
    const auto found = [&](const char* part) {
      const auto at = weights.find(name + part);
      return at == weights.end() ? nullptr : at->second;
    };
    return Layer{.weight = found(".weight"), .bias = found(".bias")};
  };
  embedding_ = named("embedding");
  positions_ = named("positions");
  norm_ = named("norm");
  unembedding_ = named("unembedding");
  if (shape.turns() > 0) rope_ = ops::rope_table(shape.context, shape.head_dim());
  const auto d = static_cast<std::size_t>(shape.d_model), cached = d * static_cast<std::size_t>(shape.context);
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const auto of = [&](const char* part) { return named(fmt::format("layers.{}.{}", layer, part)); };
    blocks_.push_back({.attention_norm = of("attention_norm"),
                       .q = of("attention.q"),
                       .k = of("attention.k"),
                       .v = of("attention.v"),
                       .o = of("attention.o"),
                       .feed_forward_norm = of("feed_forward_norm"),
                       .w1 = of("feed_forward.w1"),
                       .w3 = of("feed_forward.w3"),
                       .w2 = of("feed_forward.w2"),
                       .keys = std::vector<float>(cached),
                       .values = std::vector<float>(cached)});
  }
  for (std::vector<float>* row : {&x_, &normed_, &q_, &o_}) row->resize(d);
  hidden_.resize(static_cast<std::size_t>(shape.hidden_parts() * shape.d_ff));
  activated_.resize(static_cast<std::size_t>(shape.d_ff));
  logits_.resize(static_cast<std::size_t>(shape.vocabulary));
}

std::span<const float> Decoder::next(std::int32_t token) {
  if (token < 0 || token >= shape_.vocabulary) {
    fail(ErrorCode::invalid_argument, "lm: token {}; valid: 0 to {}", token, shape_.vocabulary - 1);
  }
  if (length_ >= shape_.context) {
    fail(ErrorCode::invalid_argument, "lm: {} tokens were taken, the whole context", length_);
  }
  embed(token);
  for (Block& block : blocks_) {
    attend(block);
    feed_forward(block);
  }
  norm(norm_);
  linear(unembedding_, normed_.data(), shape_.d_model, shape_.vocabulary, logits_.data());
  ++length_;
  return logits_;
}

void Decoder::attend(Block& block) {
  const std::int64_t d = shape_.d_model;
  float* const key = block.keys.data() + length_ * d;
  norm(block.attention_norm);
  linear(block.q, normed_.data(), d, d, q_.data());
  linear(block.k, normed_.data(), d, d, key);
  linear(block.v, normed_.data(), d, d, block.values.data() + length_ * d);
  if (!rope_.empty()) {
    turn(q_.data());
    turn(key);
  }
  const auto heads = [&](std::int64_t rows) {
    return std::array<std::int64_t, 4>{1, shape_.heads, rows, shape_.head_dim()};
  };
  strobe::forward({.q = view_bshd<const void>(q_.data(), DType::fp32, heads(1)),
                   .k = view_bshd<const void>(block.keys.data(), DType::fp32, heads(length_ + 1)),
                   .v = view_bshd<const void>(block.values.data(), DType::fp32, heads(length_ + 1))},
                  {.o = view_bshd<void>(o_.data(), DType::fp32, heads(1))}, {.threads = threads_});
  add_linear(block.o, o_.data(), d);
}

void Decoder::feed_forward(const Block& block) {
  const std::int64_t d = shape_.d_model, d_ff = shape_.d_ff;
  norm(block.feed_forward_norm);
  linear(block.w1, normed_.data(), d, d_ff, hidden_.data());
  if (shape_.architecture == Architecture::gpt2) {
    ops::gelu({.threads = threads_}, {.rows = 1, .width = d_ff}, hidden_.data(), activated_.data());
  } else {
    linear(block.w3, normed_.data(), d, d_ff, hidden_.data() + d_ff);
    ops::swiglu({.threads = threads_}, {.rows = 1, .width = d_ff}, hidden_.data(), activated_.data());
  }
  add_linear(block.w2, activated_.data(), d_ff);
}

void Decoder::embed(std::int32_t token) {
  const ops::Positions here{.table = positions_.weight ? positions_.weight + length_ * shape_.d_model : nullptr};
  ops::embedding({.threads = threads_}, {.tokens = 1, .vocabulary = shape_.vocabulary, .width = shape_.d_model}, &token,
                 embedding_.weight, x_.data(), here);
}

void Decoder::norm(const Layer& layer) {
  float statistics[2];
  if (shape_.architecture == Architecture::gpt2) {
    return ops::layer_norm(
        {.threads = threads_}, {.rows = 1, .width = shape_.d_model},
        {.x = x_.data(), .weight = layer.weight, .bias = layer.bias, .y = normed_.data(), .statistics = statistics});
  }
  ops::rms_norm({.threads = threads_}, {.rows = 1, .width = shape_.d_model}, x_.data(), layer.weight, normed_.data(),
                statistics);
}

void Decoder::linear(const Layer& layer, const float* x, std::int64_t in, std::int64_t out, float* y) const {
  ops::linear({.threads = threads_}, {.rows = 1, .in = in, .out = out}, x, layer.weight, y, {.bias = layer.bias});
}

void Decoder::add_linear(const Layer& layer, const float* x, std::int64_t in) {
  ops::linear({.threads = threads_}, {.rows = 1, .in = in, .out = shape_.d_model}, x, layer.weight, x_.data(),
              {.addend = x_.data(), .bias = layer.bias});
}

void Decoder::turn(float* x) const {
  ops::rope(
      {.threads = threads_},
      {.tokens = 1, .heads = shape_.heads, .head_dim = shape_.head_dim(), .context = 1, .first_position = length_},
      rope_.data(), x, ops::Turn::forward);
}

}  // namespace strobe::lm
