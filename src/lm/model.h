// The model, forward and backward: embedding -> blocks -> RMSNorm -> unembedding -> cross-entropy. One block, pre-norm:
// x + o(attention(rope(q), rope(k), v)), then + w2(silu(w1) w3), each of RMSNorm(x).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/host/allocator.h"
#include "lm/activations.h"
#include "lm/parameters.h"
#include "ops/optimizer.h"
#include "ops/place.h"
#include "ops/rope.h"

namespace strobe::lm {

class Model {
 public:
  // batch: sequences of shape.context tokens a step. dtype: of activations and products; parameters and their
  // gradients are fp32, with a copy in dtype for products.
  Model(const ModelShape& shape, std::int64_t batch, DType dtype, const ops::Place& place);

  void begin(std::uint64_t seed);  // parameters as their table says, gradients and optimizer state zero

  // tokens and targets: [batch, context], each in [0, vocabulary). The mean loss.
  double loss(const std::int32_t* tokens, const std::int32_t* targets);
  // The same, and gradients of the parameters, times gradient_scale, are added up.
  double loss_with_gradients(const std::int32_t* tokens, const std::int32_t* targets, float gradient_scale = 1);

  void clear_gradients();
  double gradient_norm(double scale = 1) const { return ops::gradient_norm(place_, trained_, scale); }
  void update(const ops::AdamW& options) { ops::adamw(place_, options, trained_); }

  const ModelShape& shape() const { return shape_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::span<float> values() const { return {values_.as<float>(), count()}; }
  std::span<float> gradients() const { return {gradients_.as<float>(), count()}; }
  void copy_values() { ops::round_copies(place_, trained_); }  // after values() were written from outside

 private:
  std::size_t count() const { return static_cast<std::size_t>(parameter_count(shape_)); }
  const float* value(std::size_t parameter) const { return values_.as<float>() + parameters_[parameter].first; }
  float* gradient(std::size_t parameter) const { return gradients_.as<float>() + parameters_[parameter].first; }
  const void* weight(std::size_t parameter) const;  // as products read it
  void* at(std::size_t offset) const { return static_cast<char*>(activations_.data()) + offset; }
  float* floats(std::size_t offset) const { return static_cast<float*>(at(offset)); }

  void forward(const std::int32_t* tokens);
  void forward_block(std::size_t layer, std::size_t out);
  void backward(const std::int32_t* tokens);
  void backward_block(std::size_t layer);
  void linear(std::size_t parameter, std::size_t x, std::size_t y, ops::Into into = ops::Into::set) const;
  void linear_backward(std::size_t parameter, std::size_t dy, std::size_t x, std::size_t dx, ops::Into into) const;
  void norm(std::size_t parameter, std::size_t x, std::size_t y, std::size_t inverse) const;
  void norm_backward(std::size_t parameter, std::size_t x, std::size_t inverse, std::size_t dy, std::size_t dx,
                     ops::Into into) const;
  void turn(std::size_t x, ops::Turn direction) const;
  void check_tokens(const char* what, const std::int32_t* tokens) const;

  ModelShape shape_;
  std::int64_t batch_, tokens_;
  DType dtype_;
  ops::Place place_;
  std::vector<Parameter> parameters_;
  ActivationPlan plan_;
  std::vector<float> rope_;
  Buffer values_, gradients_, mean_, variance_, copies_, activations_;
  std::vector<ops::Trained> trained_;
};

}  // namespace strobe::lm
