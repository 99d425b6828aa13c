// What Model tells a recorder of each operation.
#include <string_view>

#include "lm/model.h"

namespace strobe::lm {

namespace {

std::string_view without_weight(std::string_view name) { return name.substr(0, name.rfind('.')); }

}  // namespace

// "layers.0.attention.q+k+v"
std::string Model::name_of(std::size_t parameter, int parts) const {
  std::string name(without_weight(parameters_[parameter].name));
  for (int i = 1; i < parts; ++i) {
    const std::string_view next = without_weight(parameters_[parameter + static_cast<std::size_t>(i)].name);
    name.append("+").append(next.substr(next.rfind('.') + 1));
  }
  return name;
}

TensorUse Model::rows(std::size_t tensor, std::int64_t width) const {
  return {tensor, static_cast<std::size_t>(tokens_ * width) * size_of(dtype_)};
}

Recorded Model::recorded_product(const char* name, Of of, Tensors reads, Tensors writes) const {
  if (!recorder_) return {};
  const auto count = static_cast<std::size_t>(of.parts * parameters_[of.parameter].count());
  return {*recorder_,
          {.name = name,
           .kind = OperationKind::product,
           .phase = phase_,
           .of = name_of(of.parameter, of.parts),
           .reads = reads,
           .writes = writes,
           .parameter = of.parameter,
           .gradients = static_cast<std::size_t>(of.gradients),
           .flops = 2.0 * static_cast<double>(tokens_) * static_cast<double>(count),
           .other_bytes = count * (of.gradients > 0 ? sizeof(float) : size_of(dtype_))}};
}

// FLOPs of the causal half of the scores: two matmuls forward; four backward, and a fifth where the scores are computed
// again.
Recorded Model::recorded_attention(Pass pass, std::size_t layer, Tensors reads, Tensors writes) const {
  if (!recorder_) return {};
  const double product = static_cast<double>(tokens_) * static_cast<double>(shape_.context * shape_.d_model);
  const int matmuls = pass == Pass::forward ? 2 : is_materialised() ? 4 : 5;
  return {*recorder_,
          {.name = pass == Pass::forward ? "attention" : "attention backward",
           .kind = OperationKind::attention,
           .phase = phase_,
           .of = "layers." + std::to_string(layer),
           .reads = reads,
           .writes = writes,
           .flops = matmuls * product}};
}

// With the gradients of parameters where some are given.
Recorded Model::recorded(const char* name, OperationKind kind, Of of, Tensors reads, Tensors writes) const {
  if (!recorder_) return {};
  Operation operation{.name = name,
                      .kind = kind,
                      .phase = phase_,
                      .of = name_of(of.parameter, of.parts),
                      .reads = reads,
                      .writes = writes};
  operation.parameter = of.parameter;
  operation.gradients = static_cast<std::size_t>(of.gradients);
  for (std::size_t i = 0; i < operation.gradients; ++i) {
    operation.other_bytes += static_cast<std::size_t>(parameters_[of.parameter + i].count()) * sizeof(float);
  }
  return {*recorder_, operation};
}

// bytes: read and written of each parameter.
Recorded Model::recorded_update(const char* name, std::size_t bytes) const {
  if (!recorder_) return {};
  return {*recorder_,
          {.name = name,
           .kind = OperationKind::optimizer,
           .phase = phase_,
           .of = "all parameters",
           .other_bytes = count() * bytes}};
}

// On the CPU nothing goes anywhere.
Recorded Model::recorded_transfer(const char* name, Phase phase, std::size_t bytes) const {
  if (!recorder_ || !stream_) return {};
  return {*recorder_, {.name = name, .kind = OperationKind::copy, .phase = phase, .of = "batch", .other_bytes = bytes}};
}

}  // namespace strobe::lm
