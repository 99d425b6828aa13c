// The model one token at a time, for sampling: keys and values of earlier tokens are kept, so that a token costs one
// row of every product. On the CPU, in fp32; no gradients.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lm/shape.h"

namespace strobe::lm {

class Decoder {
 public:
  // values: parameter_count(shape) floats in the order of parameter_table(shape); must outlive it.
  Decoder(const ModelShape& shape, std::span<const float> values, int threads);

  // The token after those before it; logits [vocabulary] of what follows, valid until the next call. Throws
  // Error(invalid_argument) where shape.context tokens were taken or the token is none.
  std::span<const float> next(std::int32_t token);

  std::int64_t length() const { return length_; }  // tokens taken
  void restart() { length_ = 0; }
  const ModelShape& shape() const { return shape_; }

 private:
  struct Layer {
    const float *weight = nullptr, *bias = nullptr;  // null: the architecture has none
  };
  struct Block {
    Layer attention_norm, q, k, v, o, feed_forward_norm, w1, w3, w2;
    std::vector<float> keys, values;  // [context, d_model]; keys turned
  };

  void attend(Block& block);
  void feed_forward(const Block& block);
  void embed(std::int32_t token);  // -> x_
  void norm(const Layer& layer);   // x_ -> normed_
  void linear(const Layer& layer, const float* x, std::int64_t in, std::int64_t out, float* y) const;
  void add_linear(const Layer& layer, const float* x, std::int64_t in);  // to x_
  void turn(float* x) const;                                             // a row of q or k to its position

  ModelShape shape_;
  int threads_;
  Layer embedding_, positions_, norm_, unembedding_;
  std::vector<Block> blocks_;
  std::vector<float> rope_;
  std::vector<float> x_, normed_, q_, o_;  // [d_model]
  std::vector<float> hidden_, activated_;  // [hidden_parts, d_ff], [d_ff]
  std::vector<float> logits_;
  std::int64_t length_ = 0;
};

}  // namespace strobe::lm
