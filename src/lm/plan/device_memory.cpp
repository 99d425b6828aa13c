#include "lm/plan/device_memory.h"

#include <algorithm>

#include "core/divide.h"
#include "core/fail.h"
#include "lm/activations.h"
#include "lm/exchange.h"
#include "lm/parameters.h"

namespace strobe::lm {

namespace {

constexpr std::int64_t kMostParameters = std::int64_t{1} << 58;  // at 18 bytes each no sum wraps

}  // namespace

std::vector<Parameter> parameters_of_a_device(const ModelShape& shape, std::int64_t tensor) {
  std::vector<Parameter> parameters = parameter_table(shape);
  std::int64_t next = 0;
  for (Parameter& parameter : parameters) {
    if (parameter.role == Role::linear || parameter.role == Role::embedding) {
      parameter.shape[0] = ceil_div(parameter.shape[0], tensor);
    }
    if (is_inner_bias(parameter.role)) parameter.shape[1] = ceil_div(parameter.shape[1], tensor);
    parameter.first = next;
    next += parameter.count();
  }
  return parameters;
}

std::int64_t count_of(const std::vector<Parameter>& parameters) {
  return parameters.back().first + parameters.back().count();
}

std::int64_t largest_unit(const ModelShape& shape, const std::vector<Parameter>& parameters) {
  const auto first_of = [&](std::int64_t layer) {
    return parameters[block_places(shape.architecture, static_cast<std::size_t>(layer)).attention_norm].first;
  };
  return std::max({first_of(0), first_of(1) - first_of(0), count_of(parameters) - first_of(shape.layers)});
}

DeviceMemory device_memory(const SharedStep& step, std::size_t workspace, std::size_t bucket) {
  const BenchCase& one = step.one;
  const Mesh& mesh = step.mesh;
  const Sharding sharding = step.sharding;
  const DType dtype = dtype_of(one.precision);
  const std::vector<Parameter> parameters = parameters_of_a_device(one.shape, mesh.tensor);
  const std::int64_t count = count_of(parameters), share = ceil_div(count, mesh.shard),
                     unit = largest_unit(one.shape, parameters);
  if (count > kMostParameters) {
    fail(ErrorCode::invalid_argument, "lm: {} parameters on a device; valid: up to 2^58", count);
  }
  const auto splits = [&](Sharding what) { return mesh.shard > 1 && sharding >= what; };
  const auto memory_of_gradients = [&] {
    if (mesh.devices() == 1) return gradient_memory_of(one);
    return splits(Sharding::gradients) ? GradientMemory::own : GradientMemory::shared;
  };
  const GradientMemory gradients = memory_of_gradients();
  const ActivationPlan plan = activation_plan(one.shape, one.batch, dtype,
                                              {.recompute = one.recompute,
                                               .gradients = gradients,
                                               .attention = attention_memory_of(one.attention),
                                               .parts = mesh.tensor});

  DeviceMemory memory;
  const std::int64_t held = splits(Sharding::weights) ? share : count;
  memory.weights = float_bytes(held) + static_cast<std::size_t>(held) * copy_bytes(dtype, gradients);
  // One unit is computed with while the next is gathered.
  if (splits(Sharding::weights)) memory.weights += 2 * static_cast<std::size_t>(unit) * size_of(dtype);
  if (gradients != GradientMemory::none) {
    memory.optimizer = 2 * float_bytes(splits(Sharding::optimizer) ? share : count);
    // Whole gradients lie where activations were; a share is kept beside them, and a unit or a bucket, whichever is
    // larger, until its sums are away.
    memory.gradients =
        splits(Sharding::gradients) ? float_bytes(share) + std::max(float_bytes(unit), bucket) : float_bytes(count);
  }
  memory.activations = gradients_at(plan, parameters, gradients);
  memory.other = float_bytes(one.shape.turns()) + Exchange::bytes_for(one.batch * one.shape.context) + workspace;
  return memory;
}

}  // namespace strobe::lm
