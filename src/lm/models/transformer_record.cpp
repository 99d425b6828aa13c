// Builds the descriptions of operations that Transformer passes to a recorder.
#include <string_view>

#include "lm/models/transformer.h"

namespace strobe::lm {

namespace {

std::string_view without_weight(std::string_view name) { return name.substr(0, name.rfind('.')); }

}  // namespace

// Returns a name such as "layers.0.attention.q+k+v".
std::string Transformer::name_of(Weights weights) const {
  std::string name(without_weight(parameters_[weights.first].name));
  for (std::size_t i = 1; i < static_cast<std::size_t>(weights.parts); ++i) {
    const std::string_view next = without_weight(parameters_[weights.first + i].name);
    name.append("+").append(next.substr(next.rfind('.') + 1));
  }
  return name;
}

TensorUse Transformer::rows(std::size_t tensor, std::int64_t width) const {
  return {tensor, static_cast<std::size_t>(tokens_ * width) * size_of(dtype_)};
}

Recorded Transformer::recorded(const char* name, OperationKind kind, Weights weights, Tensors reads, Tensors writes,
                               int gradients) const {
  if (!recorder_) return {};
  Operation operation{.name = name,
                      .kind = kind,
                      .phase = phase_,
                      .of = name_of(weights),
                      .reads = reads,
                      .writes = writes,
                      .parameter = weights.first,
                      .gradients = static_cast<std::size_t>(gradients)};
  for (std::size_t i = 0; i < operation.gradients; ++i) {
    operation.other_bytes += float_bytes(parameters_[weights.first + i].count());
  }
  return {*recorder_, operation};
}

Recorded Transformer::recorded_matmul(const char* name, Weights weights, Tensors reads, Tensors writes,
                                      int gradients) const {
  if (!recorder_) return {};
  const auto count = static_cast<std::size_t>(weights.parts * parameters_[weights.first].count());
  return {*recorder_,
          {.name = name,
           .kind = OperationKind::matmul,
           .phase = phase_,
           .of = name_of(weights),
           .reads = reads,
           .writes = writes,
           .parameter = weights.first,
           .gradients = static_cast<std::size_t>(gradients),
           .flops = 2.0 * static_cast<double>(tokens_) * static_cast<double>(count),
           .other_bytes = count * (gradients > 0 ? sizeof(float) : size_of(dtype_))}};
}

Recorded Transformer::recorded_norm_backward(const char* name, Weights parameters, std::size_t x,
                                             std::size_t statistics, ops::Into into) const {
  const std::size_t dy = plan_.d_narrow, dx = plan_.d_x;
  if (into == ops::Into::set) {
    return recorded(name, OperationKind::norm, parameters.first, {x, statistics, dy}, {dx}, parameters.parts);
  }
  return recorded(name, OperationKind::norm, parameters.first, {x, statistics, dy, dx}, {dx}, parameters.parts);
}

// Counts FLOPs of the causal half of the scores: two matmuls in the forward; four in the backward, or five if it
// recomputes the scores.
Recorded Transformer::recorded_attention(Pass pass, std::size_t layer, Tensors reads, Tensors writes) const {
  if (!recorder_) return {};
  const double matmul = static_cast<double>(tokens_) * static_cast<double>(shape().context * shape().d_model);
  const int matmuls = pass == Pass::forward ? 2 : is_materialised() ? 4 : 5;
  return {*recorder_,
          {.name = pass == Pass::forward ? "attention" : "attention backward",
           .kind = OperationKind::attention,
           .phase = phase_,
           .of = "layers." + std::to_string(layer),
           .reads = reads,
           .writes = writes,
           .flops = matmuls * matmul}};
}

Recorded Transformer::recorded_update(const char* name, std::size_t bytes_per_parameter) const {
  if (!recorder_) return {};
  return {*recorder_,
          {.name = name,
           .kind = OperationKind::optimizer,
           .phase = phase_,
           .of = "all parameters",
           .other_bytes = static_cast<std::size_t>(parameter_count(shape())) * bytes_per_parameter}};
}

// Records a transfer between host and GPU. Does nothing for a model on the CPU.
Recorded Transformer::recorded_transfer(const char* name, Phase phase, std::size_t bytes) const {
  if (!recorder_ || !stream_) return {};
  return {*recorder_, {.name = name, .kind = OperationKind::copy, .phase = phase, .of = "batch", .other_bytes = bytes}};
}

}  // namespace strobe::lm
