// Decoder runs the forward pass with a KV cache, for sampling: the prompt in passes of up to 512 tokens, then one token
// per pass. It runs on the CPU in fp32. sampler.h uses it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lm/models/shape.h"

namespace strobe::lm {

// A weight and its bias; the bias is null if the architecture has none.
struct DecoderLayer {
  const float *weight = nullptr, *bias = nullptr;
};

class Decoder {
 public:
  // `values` are parameter_count(shape) floats in the order of parameter_table(shape); they must outlive this object.
  Decoder(const ModelShape& shape, std::span<const float> values, int threads);

  // Appends at least one token. Returns the logits [vocabulary] of the next token, valid until the next call. Throws
  // Error(invalid_argument) if the context has no room for all tokens or if one is not in the vocabulary.
  std::span<const float> append(std::span<const std::int32_t> tokens);
  std::span<const float> append(std::int32_t token) { return append({&token, 1}); }

  std::int64_t length() const { return length_; }  // tokens in the cache
  void restart() { length_ = 0; }
  const ModelShape& shape() const { return shape_; }

  // Definition has pointers to these functions. The norms read the rows of x_ from first_row on and write
  // normed_; swiglu() and gelu() read hidden_ and write activated_.
  void rms_norm(const DecoderLayer& norm, std::int64_t first_row);
  void layer_norm(const DecoderLayer& norm, std::int64_t first_row);
  void swiglu();
  void gelu();

 private:
  using Layer = DecoderLayer;
  struct Block {
    Layer attention_norm, q, k, v, o, feed_forward_norm, w1, w2;  // w1: includes w3 if the architecture has it
    std::vector<float> keys, values;                              // [context, d_model]; keys after RoPE
  };

  // append_rows() and the functions that it calls process rows_ new tokens at positions length_, length_ + 1, ...
  void check(std::span<const std::int32_t> tokens) const;
  void append_rows(std::span<const std::int32_t> tokens);
  void reserve_rows(std::int64_t rows);
  void attend(Block& block);
  void feed_forward(const Block& block);
  void embed(std::span<const std::int32_t> tokens);       // -> x_
  void norm(const Layer& layer, std::int64_t first_row);  // -> normed_
  void linear(const Layer& layer, const float* x, std::int64_t in, std::int64_t out, float* y) const;
  void add_linear(const Layer& layer, const float* x, std::int64_t in);  // adds its result to x_
  void rotate(float* x) const;                                           // applies RoPE to rows_ rows of q or k

  ModelShape shape_;
  int threads_;
  Layer embedding_, positions_, norm_, unembedding_;
  std::vector<Block> blocks_;
  std::vector<float> rope_;
  std::vector<float> x_, normed_, q_, o_;  // [rows, d_model]
  std::vector<float> hidden_, activated_;  // [rows, hidden_parts, d_ff], [rows, d_ff]
  std::vector<float> statistics_;          // [rows, 2], of a norm
  std::vector<float> logits_;
  std::int64_t rows_ = 0, length_ = 0;
};

}  // namespace strobe::lm
