// Predicts the bytes that one device of a mesh holds in a training step. `strobe plan` uses it; `strobe lm` uses it for
// a single device.
#pragma once

#include <cstddef>
#include <vector>

#include "lm/models/parameters.h"
#include "lm/plan/shared_step.h"
#include "strobe/error.h"

namespace strobe::lm {

struct DeviceMemory {
  std::size_t weights = 0;      // fp32 values, copies for matmuls outside the memory plan, gathered parameters
  std::size_t gradients = 0;    // fp32
  std::size_t optimizer = 0;    // AdamW's two moments, fp32
  std::size_t activations = 0;  // activations, excluding the gradients that overwrite them
  std::size_t other = 0;        // tokens and losses, the RoPE table, workspace

  std::size_t total() const { return weights + gradients + optimizer + activations + other; }
};

// Returns the parameters of one of `tensor` tensor-parallel devices, with their offsets on that device. Weights of
// linear layers, the embedding and inner biases are split into `tensor` parts; norms, positions and other biases are
// not.
std::vector<Parameter> parameters_of_a_device(const ModelShape& shape, std::int64_t tensor);
std::int64_t count_of(const std::vector<Parameter>& parameters);

// Returns the memory of a device in the pipeline stage that needs the most. `workspace` and `bucket` are in bytes.
// `bucket` is the size of gradients per exchange call, as bucket_bytes_of() (step_time.h) returns it. Throws
// Error(invalid_argument) above the limit of activation_plan().
DeviceMemory device_memory(const SharedStep& step, std::size_t workspace, std::size_t bucket = 0);

// --- one device, before any allocation

// Returns the peak bytes of the case. The prediction is exact.
std::size_t predicted_bytes(const BenchCase& one);

// Returns the workspace included in predicted_bytes(): the largest of any operation. On CUDA the model holds it
// permanently.
std::size_t predicted_workspace(const BenchCase& one);

// Returns `one`. Throws Error(out_of_memory) with the bytes requested and free if the step does not fit in host memory.
// Without this check, a system that overcommits would kill the process later. Does not check GPU memory, because
// cudaMalloc fails at once.
const BenchCase& check_memory(const BenchCase& one);

// Like check_memory(), but for `processes` processes that share the device, and also for GPU memory. Call it before any
// of the processes allocates.
void check_shared_memory(const BenchCase& one, int processes);

// Rethrows `error`, with memory_advice() added if its code is out_of_memory. Call it in a handler of `error`.
[[noreturn]] void rethrow_with_advice(const Error& error, const BenchCase& one);

// Returns make(), which allocates the model of `one`. If GPU memory is exhausted, the error contains memory_advice().
template <class Make>
auto with_memory_advice(const BenchCase& one, const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    rethrow_with_advice(error, one);
  }
}

}  // namespace strobe::lm
