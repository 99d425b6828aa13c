// Implements Decoder, the forward pass with a KV cache.
#include "lm/models/decoder.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include <fmt/format.h>

#include "core/fail.h"
#include "lm/models/parameters.h"
#include "ops/activation.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/rope.h"
#include "strobe/attention.h"

namespace strobe::lm {

namespace {

constexpr std::int64_t kMostRows = 512;  // tokens per pass; limits the memory of activations of a long prompt

}  // namespace

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
  if (shape.rope_elements() > 0) rope_ = ops::rope_table(shape.context, shape.head_dim());
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
                       .w2 = of("feed_forward.w2"),
                       .keys = std::vector<float>(cached),
                       .values = std::vector<float>(cached)});
  }
  logits_.resize(static_cast<std::size_t>(shape.vocabulary));
}

void Decoder::reserve_rows(std::int64_t rows) {
  rows_ = rows;
  const auto resize = [&](std::vector<float>& values, std::int64_t width) {
    const auto count = static_cast<std::size_t>(rows * width);
    if (values.size() < count) values.resize(count);
  };
  for (std::vector<float>* values : {&x_, &normed_, &q_, &o_}) resize(*values, shape_.d_model);
  resize(hidden_, shape_.hidden_parts() * shape_.d_ff);
  resize(activated_, shape_.d_ff);
  resize(statistics_, 2);
}

void Decoder::check(std::span<const std::int32_t> tokens) const {
  if (tokens.empty()) fail(ErrorCode::invalid_argument, "lm: 0 tokens to append; valid: 1 or more");
  for (const std::int32_t token : tokens) {
    if (token >= 0 && token < shape_.vocabulary) continue;
    fail(ErrorCode::invalid_argument, "lm: token {}; valid: 0 to {}", token, shape_.vocabulary - 1);
  }
  const std::int64_t room = shape_.context - length_;
  if (static_cast<std::int64_t>(tokens.size()) > room) {
    fail(ErrorCode::invalid_argument, "lm: {} tokens to append; the context of {} has room for {}", tokens.size(),
         shape_.context, room);
  }
}

std::span<const float> Decoder::append(std::span<const std::int32_t> tokens) {
  check(tokens);
  for (std::size_t first = 0; first < tokens.size(); first += kMostRows) {
    append_rows(tokens.subspan(first, std::min<std::size_t>(kMostRows, tokens.size() - first)));
  }
  norm(norm_, rows_ - 1);
  rows_ = 1;
  linear(unembedding_, normed_.data(), shape_.d_model, shape_.vocabulary, logits_.data());
  return logits_;
}

void Decoder::append_rows(std::span<const std::int32_t> tokens) {
  reserve_rows(static_cast<std::int64_t>(tokens.size()));
  embed(tokens);
  for (Block& block : blocks_) {
    attend(block);
    feed_forward(block);
  }
  length_ += rows_;
}

void Decoder::attend(Block& block) {
  const std::int64_t d = shape_.d_model, keys = length_ + rows_;
  float* const key = block.keys.data() + length_ * d;
  norm(block.attention_norm, 0);
  linear(block.q, normed_.data(), d, d, q_.data());
  linear(block.k, normed_.data(), d, d, key);
  linear(block.v, normed_.data(), d, d, block.values.data() + length_ * d);
  if (!rope_.empty()) {
    rotate(q_.data());
    rotate(key);
  }
  const auto heads = [&](std::int64_t rows) {
    return std::array<std::int64_t, 4>{1, shape_.heads, rows, shape_.head_dim()};
  };
  strobe::forward({.q = view_bshd<const void>(q_.data(), DType::fp32, heads(rows_)),
                   .k = view_bshd<const void>(block.keys.data(), DType::fp32, heads(keys)),
                   .v = view_bshd<const void>(block.values.data(), DType::fp32, heads(keys)),
                   .causal = true,
                   .alignment = Alignment::bottom_right},
                  {.o = view_bshd<void>(o_.data(), DType::fp32, heads(rows_))}, {.threads = threads_});
  add_linear(block.o, o_.data(), d);
}

void Decoder::feed_forward(const Block& block) {
  const std::int64_t d_ff = shape_.d_ff;
  norm(block.feed_forward_norm, 0);
  linear(block.w1, normed_.data(), shape_.d_model, shape_.hidden_parts() * d_ff, hidden_.data());
  (this->*shape_.definition().decode_activation)();
  add_linear(block.w2, activated_.data(), d_ff);
}

void Decoder::embed(std::span<const std::int32_t> tokens) {
  const ops::Positions positions{.table = positions_.weight ? positions_.weight + length_ * shape_.d_model : nullptr,
                                 .context = rows_};
  ops::embedding({.threads = threads_}, {.tokens = rows_, .vocabulary = shape_.vocabulary, .width = shape_.d_model},
                 tokens.data(), embedding_.weight, x_.data(), positions);
}

void Decoder::norm(const Layer& layer, std::int64_t first_row) {
  (this->*shape_.definition().decode_norm)(layer, first_row);
}

void Decoder::rms_norm(const Layer& norm, std::int64_t first_row) {
  const std::int64_t width = shape_.d_model;
  ops::rms_norm({.threads = threads_}, {.rows = rows_ - first_row, .width = width}, x_.data() + first_row * width,
                norm.weight, normed_.data(), statistics_.data());
}

void Decoder::layer_norm(const Layer& norm, std::int64_t first_row) {
  const std::int64_t width = shape_.d_model;
  ops::layer_norm({.threads = threads_}, {.rows = rows_ - first_row, .width = width},
                  {.x = x_.data() + first_row * width,
                   .weight = norm.weight,
                   .bias = norm.bias,
                   .y = normed_.data(),
                   .statistics = statistics_.data()});
}

void Decoder::swiglu() {
  ops::swiglu({.threads = threads_}, {.rows = rows_, .width = shape_.d_ff}, hidden_.data(), activated_.data());
}

void Decoder::gelu() {
  ops::gelu({.threads = threads_}, {.rows = rows_, .width = shape_.d_ff}, hidden_.data(), activated_.data());
}

void Decoder::linear(const Layer& layer, const float* x, std::int64_t in, std::int64_t out, float* y) const {
  ops::linear({.threads = threads_}, {.rows = rows_, .in = in, .out = out}, x, layer.weight, y, {.bias = layer.bias});
}

void Decoder::add_linear(const Layer& layer, const float* x, std::int64_t in) {
  ops::linear({.threads = threads_}, {.rows = rows_, .in = in, .out = shape_.d_model}, x, layer.weight, x_.data(),
              {.addend = x_.data(), .bias = layer.bias});
}

void Decoder::rotate(float* x) const {
  ops::rope({.threads = threads_},
            {.tokens = rows_,
             .heads = shape_.heads,
             .head_dim = shape_.head_dim(),
             .context = rows_,
             .first_position = length_},
            rope_.data(), x, ops::Rotation::forward);
}

}  // namespace strobe::lm
