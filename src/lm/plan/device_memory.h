// Bytes that one device of a mesh holds in a training step; for a mesh of one, what `strobe lm memory` predicts.
#pragma once

#include <cstddef>
#include <vector>

#include "lm/models/parameters.h"
#include "lm/plan/shared_step.h"

namespace strobe::lm {

struct DeviceMemory {
  std::size_t weights = 0;  // fp32 values, a copy in the products' type that lies apart, and what is gathered of others
  std::size_t gradients = 0;    // fp32
  std::size_t optimizer = 0;    // AdamW's two averages, fp32
  std::size_t activations = 0;  // what the run of memory takes beyond the gradients that lie in it, over copies too
  std::size_t other = 0;        // tokens and losses, the table of RoPE, workspace

  std::size_t total() const { return weights + gradients + optimizer + activations + other; }
};

// Parameters of a device, as flat tensors: matrices and biases of their rows in `tensor` parts; norms, positions and
// what is added to the residual stream whole.
std::vector<Parameter> parameters_of_a_device(const ModelShape& shape, std::int64_t tensor);
std::int64_t count_of(const std::vector<Parameter>& parameters);

// Memory of a device in the fullest stage. bucket: bytes of whole gradients per call of their exchange, by
// bucket_bytes_of (step_time.h). Throws Error(invalid_argument) above the limit of activation_plan.
DeviceMemory device_memory(const SharedStep& step, std::size_t workspace, std::size_t bucket = 0);

// --- one device, before anything is allocated

// Bytes held at most, exactly.
std::size_t predicted_bytes(const BenchCase& one);

// The largest part of these that one operation holds: on CUDA the model's workspace, held all the time.
std::size_t predicted_workspace(const BenchCase& one);

// Returns the case. Throws Error(out_of_memory) with the bytes asked for and free if it does not fit the CPU's memory:
// a system that overcommits would end the process later. A GPU's allocator refuses by itself.
const BenchCase& check_memory(const BenchCase& one);

// The same for so many processes that share the device, before any of them allocates; for a GPU too.
void check_shared_memory(const BenchCase& one, int processes);

}  // namespace strobe::lm
