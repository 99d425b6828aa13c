// Implements training_model(), which checks the memory before it creates a model.
#include "lm/train/training_backend.h"

#include "core/fail.h"
#include "core/short_number.h"
#include "device/device_info.h"
#include "lm/plan/device_memory.h"
#include "lm/plan/memory_advice.h"

namespace strobe::lm {

namespace {

// Throws Error(out_of_memory) unless `processes` processes fit in the memory of a device, each with `state_bytes` of
// optimizer state.
void check_ranks_memory(const BenchCase& one, int processes, std::size_t state_bytes) {
  const bool on_gpu = one.execution.device == Device::cuda;
  const DeviceMemory memory = device_memory({.one = one}, 0);
  const std::size_t needed = memory.weights + memory.gradients + state_bytes + memory.activations;
  // Uses the total memory, because the free memory changes while ranks start.
  const std::size_t available =
      (on_gpu ? current_gpu_info().memory_bytes : cpu_info().memory_bytes) / static_cast<std::size_t>(processes);
  if (available > 0 && needed > available) {
    fail(ErrorCode::out_of_memory,
         "lm train: parameters, their state and activations take {}; this {} has {} for each of its {} ranks; {}",
         exact_bytes_text(needed), on_gpu ? "GPU" : "machine", exact_bytes_text(available), processes,
         memory_advice(one, available));
  }
}

}  // namespace

Model training_model(const Settings& settings, std::int64_t batch, const BackendOptions& options,
                     OptimizerMemory optimizer, std::size_t state_bytes) {
  check(settings.shape);
  if (settings.precision == Precision::tf32 && settings.device == Device::cpu) {
    fail(ErrorCode::unsupported, "--precision tf32: needs a GPU; valid on the CPU: fp32, bf16, fp16");
  }
  const bool own = optimizer == OptimizerMemory::own;
  const DType dtype = dtype_of(settings.precision);
  const GradientMemory gradients = own ? step_memory(settings.shape, dtype) : GradientMemory::shared;
  const BenchCase one{.shape = settings.shape,
                      .batch = batch,
                      .precision = settings.precision,
                      .recompute = options.recompute,
                      .execution = {.device = settings.device, .threads = options.threads},
                      .gradients = gradients};
  // Checks the memory before any allocation, because a system that overcommits would kill the process later.
  if (options.processes == 1) {
    check_memory(one);
  } else {
    check_ranks_memory(one, options.processes, own ? 2 * float_bytes(parameter_count(settings.shape)) : state_bytes);
  }
  return with_memory_advice(one, [&] {
    return Model(settings.shape, batch, dtype,
                 {.device = settings.device,
                  .threads = options.threads,
                  .deterministic = settings.deterministic,
                  .tf32 = settings.precision == Precision::tf32},
                 {.gradients = gradients, .optimizer = optimizer, .recompute = options.recompute});
  });
}

}  // namespace strobe::lm
