// Bytes that one device of a mesh holds in a training step. A mesh of one device is the prediction of `strobe lm
// memory`.
#pragma once

#include <cstddef>
#include <vector>

#include "lm/models/parameters.h"
#include "lm/plan/shared_step.h"

namespace strobe::lm {

struct DeviceMemory {
  std::size_t weights = 0;      // fp32 values, copies in the matmuls' type with separate memory, gathered parameters
  std::size_t gradients = 0;    // fp32
  std::size_t optimizer = 0;    // AdamW's two moments, fp32
  std::size_t activations = 0;  // bytes of the run outside the gradients placed in it, also with over_copies
  std::size_t other = 0;        // tokens and losses, the RoPE table, workspace

  std::size_t total() const { return weights + gradients + optimizer + activations + other; }
};

// Returns the parameters of one device as flat tensors. Matrices and the biases of their rows are split into `tensor`
// parts. Norms, positions and biases of outputs to the residual stream are whole.
std::vector<Parameter> parameters_of_a_device(const ModelShape& shape, std::int64_t tensor);
std::int64_t count_of(const std::vector<Parameter>& parameters);

// Returns the memory of a device in the stage with the most. `bucket`: bytes of whole gradients per exchange call, from
// bucket_bytes_of (step_time.h). Throws Error(invalid_argument) above the limit of activation_plan.
DeviceMemory device_memory(const SharedStep& step, std::size_t workspace, std::size_t bucket = 0);

// --- one device, before any allocation

// Returns the exact peak in bytes.
std::size_t predicted_bytes(const BenchCase& one);

// Returns the workspace included in predicted_bytes: the largest one of any operation. On CUDA the model holds it all
// the time.
std::size_t predicted_workspace(const BenchCase& one);

// Returns the case. Throws Error(out_of_memory) with the bytes requested and free if it does not fit in host memory: a
// system that overcommits would kill the process later. Does not check GPU memory, whose allocator fails at once.
const BenchCase& check_memory(const BenchCase& one);

// Checks the memory for `processes` that share the device, before any of them allocates. Also checks GPU memory.
void check_shared_memory(const BenchCase& one, int processes);

}  // namespace strobe::lm
