// Predicts the memory that a device needs, and checks before allocation that it is free.
#include "lm/plan/device_memory.h"

#include <algorithm>

#include "core/divide.h"
#include "core/fail.h"
#include "core/short_number.h"
#include "device/device_info.h"
#include "lm/models/activations.h"
#include "lm/models/parameters.h"
#include "lm/plan/memory_advice.h"
#include "lm/step/transfer.h"
#include "measure/system_info.h"

namespace strobe::lm {

namespace {

constexpr std::int64_t kMostParameters = std::int64_t{1} << 58;  // at 18 bytes per parameter, sums stay below 2^63

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

namespace {

// Gradients share memory with activations only in a decoder without a pipeline.
GradientMemory gradient_memory(const SharedStep& step) {
  if (step.network != Network::decoder || step.mesh.pipeline > 1) return GradientMemory::own;
  if (step.mesh.devices() == 1) return gradient_memory_of(step.one);
  return step.mesh.shard > 1 && step.sharding >= Sharding::gradients ? GradientMemory::own : GradientMemory::shared;
}

// Returns the bytes of activations, excluding the gradients that overwrite them.
std::size_t activations_of(const SharedStep& step, const Stage& stage, GradientMemory gradients) {
  if (step.network != Network::decoder || step.mesh.pipeline > 1) return stage_activations(step, stage);
  const BenchCase& one = step.one;
  const ActivationPlan plan = activation_plan(one.shape, one.batch, dtype_of(one.precision),
                                              {.recompute = one.recompute,
                                               .gradients = gradients,
                                               .attention = attention_memory_of(one.attention),
                                               .parts = step.mesh.tensor});
  return gradients_at(plan, parameters_of_a_device(one.shape, step.mesh.tensor), gradients);
}

DeviceMemory memory_of(const SharedStep& step, const Stage& stage, std::size_t workspace, std::size_t bucket) {
  const BenchCase& one = step.one;
  const Mesh& mesh = step.mesh;
  const Sharding sharding = step.sharding;
  const DType dtype = dtype_of(one.precision);
  const StageParameters parameters = parameters_of(step, stage);
  const std::int64_t count = parameters.count(), share = ceil_div(count, mesh.shard), unit = parameters.largest_unit();
  if (count > kMostParameters) {
    fail(ErrorCode::invalid_argument, "lm: {} parameters on a device; valid: up to 2^58", count);
  }
  const auto splits = [&](Sharding what) { return mesh.shard > 1 && sharding >= what; };
  const GradientMemory gradients = gradient_memory(step);

  DeviceMemory memory;
  const std::int64_t local_count = splits(Sharding::weights) ? share : count;
  memory.weights = float_bytes(local_count) + static_cast<std::size_t>(local_count) * copy_bytes(dtype, gradients);
  // Sharded parameters are gathered in units (StageParameters): the device computes with one while it gathers the next.
  if (splits(Sharding::weights)) memory.weights += 2 * static_cast<std::size_t>(unit) * size_of(dtype);
  if (gradients != GradientMemory::none) {
    memory.optimizer = 2 * float_bytes(splits(Sharding::optimizer) ? share : count);
    // A device holds its share of the summed gradients. In addition it holds whole gradients that are not summed yet:
    // one unit or one bucket, whichever is larger.
    memory.gradients =
        splits(Sharding::gradients) ? float_bytes(share) + std::max(float_bytes(unit), bucket) : float_bytes(count);
  }
  memory.activations = activations_of(step, stage, gradients);
  memory.other = workspace;
  if (step.network == Network::decoder) {
    memory.other += float_bytes(one.shape.rope_elements()) + Transfer::bytes_for(one.batch * one.shape.context);
  }
  return memory;
}

}  // namespace

DeviceMemory device_memory(const SharedStep& step, std::size_t workspace, std::size_t bucket) {
  DeviceMemory most;
  for (const Stage& stage : stages_of(step)) {
    const DeviceMemory memory = memory_of(step, stage, workspace, bucket);
    if (memory.total() > most.total()) most = memory;
  }
  return most;
}

// --- one device ------------------------------------------------------------------------------------------------------

std::size_t predicted_workspace(const BenchCase& one) {
  return workspace_bytes(transformer_options(one), place_of(one));
}

std::size_t predicted_bytes(const BenchCase& one) {
  return device_memory({.one = one}, predicted_workspace(one)).total();
}

const BenchCase& check_memory(const BenchCase& one) {
  if (one.execution.device == Device::cpu) check_shared_memory(one, 1);
  return one;
}

namespace {

// Returns the free bytes of the device; 0 or less: unknown.
std::int64_t available_bytes(Device device) {
  return device == Device::cuda ? static_cast<std::int64_t>(current_gpu_info().memory_free_bytes)
                                : read_memory_info().available;
}

}  // namespace

void rethrow_with_advice(const Error& error, const BenchCase& one) {
  const std::int64_t available = available_bytes(one.execution.device);
  if (error.code() != ErrorCode::out_of_memory || available <= 0) throw;
  fail(ErrorCode::out_of_memory, "{}; {}", error.what(), memory_advice(one, static_cast<std::size_t>(available)));
}

void check_shared_memory(const BenchCase& one, int processes) {
  const std::int64_t available = available_bytes(one.execution.device);
  if (available <= 0) return;  // unknown
  const std::size_t free = static_cast<std::size_t>(available) / static_cast<std::size_t>(processes);
  std::size_t needed = device_memory({.one = one}, 0).total();
  if (needed <= free) needed += predicted_workspace(one);
  if (needed <= free) return;
  fail(ErrorCode::out_of_memory, "cannot allocate {}: {} are free{}; {}", exact_bytes_text(needed),
       exact_bytes_text(free), processes == 1 ? "" : fmt::format(" for each of {} ranks that share them", processes),
       memory_advice(one, free));
}

}  // namespace strobe::lm
