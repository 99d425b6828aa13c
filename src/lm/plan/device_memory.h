// Bytes that one device of a mesh holds in a training step. One device: what `strobe lm memory` predicts, since that
// asks here.
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

}  // namespace strobe::lm
