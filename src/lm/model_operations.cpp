// The operations of the network, each told to the recorder as it runs.
#include <span>

#include "lm/model.h"
#include "ops/column_sums.h"
#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "ops/gelu.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/swiglu.h"

namespace strobe::lm {

using ops::Into;

// --- linear layers ---------------------------------------------------------------------------------------------------

void Model::linear(std::size_t parameter, int parts, std::size_t x, std::size_t y) const {
  const auto& [out, in] = parameters_[parameter].shape;
  const Recorded scope = recorded_product("linear", {parameter, parts}, {x}, {y});
  ops::linear(place_, {tokens_, in, parts * out, dtype_}, at(x), weight(parameter), at(y),
              {.bias = bias_of(parameter, parts)});
}

void Model::linear_onto(std::size_t parameter, std::size_t x, std::size_t addend, std::size_t y) const {
  const auto& [out, in] = parameters_[parameter].shape;
  const Recorded scope = recorded_product("linear", {parameter}, {x, addend}, {y});
  ops::linear(place_, {tokens_, in, out, dtype_}, at(x), weight(parameter), at(y),
              {.addend = at(addend), .bias = bias_of(parameter, 1)});
}

// Tiles that are fastest alone fill all multiprocessors and leave AdamW none where it runs beside them; those of
// cuBLASLt's first proposal leave some at its end. The product is slower, the step is faster
// (docs/training.md, "Ideas tried").
ops::Place Model::backward_place() const {
  ops::Place place = place_;
  place.searches_tiles = !updates_go_beside_;
  return place;
}

void Model::linear_backward(std::size_t parameter, int parts, std::size_t dy, std::size_t x, std::size_t dx) const {
  const auto& [out, in] = parameters_[parameter].shape;
  const ops::Linear shape{tokens_, in, parts * out, dtype_};
  const ops::Place place = backward_place();
  if (const std::optional<std::size_t> bias = bias_behind(parameter, parts)) bias_backward(*bias, parts, dy, shape.out);
  {
    const Recorded scope =
        recorded_product("linear backward weight", {parameter, parts, parts}, {rows(dy, shape.out), x}, {});
    ops::linear_backward_weight(place, shape, at(dy), at(x), gradient(parameter), gradients_into_);
  }
  tell_ready(parameter, parts);
  const Recorded scope =
      recorded_product("linear backward input", {parameter, parts}, {rows(dy, shape.out)}, {rows(dx, in)});
  ops::linear_backward_input(place, shape, at(dy), weight(parameter), at(dx), Into::set);
}

// Where the first of the biases of `parts` neighbours stands.
std::optional<std::size_t> Model::bias_behind(std::size_t parameter, int parts) const {
  const std::size_t behind = parameter + static_cast<std::size_t>(parts);
  if (behind < parameters_.size() && is_bias(parameters_[behind].role)) return behind;
  return {};
}

const void* Model::bias_of(std::size_t parameter, int parts) const {
  const std::optional<std::size_t> bias = bias_behind(parameter, parts);
  return bias ? weight(*bias) : nullptr;
}

// A bias of k adds one number to all scores of a row, which softmax takes out again: its gradient is 0. Summed up it
// would be rounding, of which AdamW makes whole steps, others on every number of ranks.
void Model::bias_backward(std::size_t bias, int parts, std::size_t dy, std::int64_t width) const {
  const Recorded scope =
      recorded("bias backward", OperationKind::elementwise, {bias, parts, parts}, {rows(dy, width)}, {});
  ops::column_sums(place_, {tokens_, width, dtype_}, at(dy), gradient(bias), gradients_into_);
  for (const Parameter& part : std::span(parameters_).subspan(bias, static_cast<std::size_t>(parts))) {
    if (part.role != Role::key_bias) continue;
    run_.clear(gradients_at_ + float_bytes(part.first), float_bytes(part.count()));
  }
  tell_ready(bias, parts);
}

// --- norms -----------------------------------------------------------------------------------------------------------

void Model::norm(std::size_t parameter, std::size_t x, std::size_t y, std::size_t statistics) const {
  const Recorded scope =
      recorded(is_gpt2() ? "layer_norm" : "rms_norm", OperationKind::norm, {parameter}, {x}, {y, statistics});
  if (is_gpt2()) {
    return ops::layer_norm(place_, {.rows = tokens_, .width = shape_.d_model, .dtype = dtype_},
                           {.x = at(x),
                            .weight = value(parameter),
                            .bias = value(parameter + 1),
                            .y = at(y),
                            .statistics = floats(statistics)});
  }
  ops::rms_norm(place_, {.rows = tokens_, .width = shape_.d_model, .dtype = dtype_}, at(x), value(parameter), at(y),
                floats(statistics));
}

// From d_narrow.
void Model::norm_backward(std::size_t parameter, std::size_t x, std::size_t statistics, std::size_t dx,
                          Into into) const {
  const int gradients = is_gpt2() ? 2 : 1;
  const char* const name = is_gpt2() ? "layer_norm backward" : "rms_norm backward";
  const Of of{parameter, 1, gradients};
  const Recorded scope = into == Into::sum
                             ? recorded(name, OperationKind::norm, of, {x, statistics, plan_.d_narrow, dx}, {dx})
                             : recorded(name, OperationKind::norm, of, {x, statistics, plan_.d_narrow}, {dx});
  if (is_gpt2()) {
    ops::layer_norm_backward(place_, {.rows = tokens_, .width = shape_.d_model, .dtype = dtype_},
                             {.x = at(x),
                              .weight = value(parameter),
                              .statistics = floats(statistics),
                              .dy = at(plan_.d_narrow),
                              .dx = at(dx),
                              .dx_into = into,
                              .dweight = gradient(parameter),
                              .dbias = gradient(parameter + 1),
                              .parameters_into = gradients_into_});
  } else {
    ops::rms_norm_backward(place_, {.rows = tokens_, .width = shape_.d_model, .dtype = dtype_},
                           {.x = at(x),
                            .weight = value(parameter),
                            .inverse = floats(statistics),
                            .dy = at(plan_.d_narrow),
                            .dx = at(dx),
                            .dx_into = into,
                            .dweight = gradient(parameter),
                            .dweight_into = gradients_into_});
  }
  tell_ready(parameter, gradients);
}

// --- elementwise -----------------------------------------------------------------------------------------------------

// q and k lie side by side: twice the heads, and v is left out.
void Model::turn(std::size_t layer, std::size_t qkv, ops::Turn direction) const {
  const Recorded scope =
      recorded(direction == ops::Turn::forward ? "rope" : "rope backward", OperationKind::elementwise,
               {places(layer).q, 2}, {rows(qkv, 2 * shape_.d_model)}, {rows(qkv, 2 * shape_.d_model)});
  ops::rope(place_,
            {.tokens = tokens_,
             .heads = 2 * shape_.heads,
             .head_dim = shape_.head_dim(),
             .context = shape_.context,
             .stride = 3 * shape_.d_model,
             .dtype = dtype_},
            rope_.as<float>(), at(qkv), direction);
}

void Model::activate(std::size_t layer) const {
  const BlockActivations& a = plan_.blocks[layer];
  const Of of{places(layer).w1, shape_.hidden_parts()};
  const Recorded scope =
      recorded(is_gpt2() ? "gelu" : "swiglu", OperationKind::elementwise, of, {a.hidden}, {a.activated});
  if (is_gpt2()) return ops::gelu(place_, {tokens_, shape_.d_ff, dtype_}, at(a.hidden), at(a.activated));
  ops::swiglu(place_, {tokens_, shape_.d_ff, dtype_}, at(a.hidden), at(a.activated));
}

// d_wide: of activated.
void Model::activate_backward(std::size_t layer) const {
  const BlockActivations& a = plan_.blocks[layer];
  const Of of{places(layer).w1, shape_.hidden_parts()};
  const Recorded scope = recorded(is_gpt2() ? "gelu backward" : "swiglu backward", OperationKind::elementwise, of,
                                  {a.hidden, rows(plan_.d_wide, shape_.d_ff)}, {a.hidden});
  void* const hidden = at(a.hidden);
  if (is_gpt2()) {
    return ops::gelu_backward(place_, {tokens_, shape_.d_ff, dtype_}, hidden, at(plan_.d_wide), hidden);
  }
  ops::swiglu_backward(place_, {tokens_, shape_.d_ff, dtype_}, hidden, at(plan_.d_wide), hidden);
}

// --- the ends --------------------------------------------------------------------------------------------------------

void Model::embed() const {
  const std::size_t out = plan_.blocks[0].x;
  const Recorded scope = recorded("embedding", OperationKind::copy, {kEmbedding}, {}, {out});
  const ops::Positions positions{.table = is_gpt2() ? value(kPositions) : nullptr, .context = shape_.context};
  ops::embedding(place_, {tokens_, shape_.vocabulary, shape_.d_model, dtype_}, exchange_.placed().tokens(),
                 value(kEmbedding), at(out), positions);
}

void Model::embed_backward() const {
  if (is_gpt2()) {
    const Recorded scope =
        recorded("positions backward", OperationKind::elementwise, {kPositions, 1, 1}, {plan_.d_x}, {});
    ops::column_sums(place_, {batch_, shape_.context * shape_.d_model, dtype_}, at(plan_.d_x), gradient(kPositions),
                     gradients_into_);
    tell_ready(kPositions);
  }
  const Recorded scope = recorded("embedding backward", OperationKind::copy, {kEmbedding, 1, 1}, {plan_.d_x}, {});
  ops::embedding_backward(place_, {tokens_, shape_.vocabulary, shape_.d_model, dtype_}, exchange_.placed().tokens(),
                          at(plan_.d_x), gradient(kEmbedding), gradients_into_);
  tell_ready(kEmbedding);
}

void Model::cross_entropy(LossOnly what) const {
  const Exchange::Side there = exchange_.placed();
  const bool has_gradient = what == LossOnly::no;
  const Of of{parameters_.size() - 1};
  const Recorded scope = has_gradient
                             ? recorded("cross_entropy", OperationKind::loss, of, {plan_.logits}, {plan_.logits})
                             : recorded("cross_entropy", OperationKind::loss, of, {plan_.logits}, {});
  const ops::CrossEntropy shape{
      .rows = tokens_, .vocabulary = shape_.vocabulary, .dtype = dtype_, .loss_scale = &there.update()->loss_scale};
  if (!has_gradient) {
    ops::cross_entropy(place_, shape, at(plan_.logits), there.targets(), there.losses());
  } else {
    ops::cross_entropy_with_gradient(place_, shape, at(plan_.logits), there.targets(), there.losses());
  }
}

// Of `parts` neighbours, from the last.
void Model::tell_ready(std::size_t parameter, int parts) const {
  if (!gradient_ready_) return;
  for (std::size_t i = static_cast<std::size_t>(parts); i-- > 0;) gradient_ready_(parameter + i);
}

}  // namespace strobe::lm
