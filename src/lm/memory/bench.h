// Memory of one model's step: predicted, counted, told by the driver. `strobe lm memory` calls.
#pragma once

#include <cstddef>
#include <optional>

#include "lm/memory/timeline.h"
#include "lm/profile/step_bench.h"

namespace strobe::lm {

struct MemoryFigures {
  MemoryTimeline timeline;
  std::size_t predicted = 0;            // bytes held at most, from the shape alone
  std::size_t counted = 0;              // by the allocator
  std::optional<std::size_t> driver{};  // CUDA: what is gone of its free memory, kernels and handles not included
};

// One run of the case's pass on a new model. On CUDA after another, in which libraries load their kernels.
// Throws Error(out_of_memory) with the bytes asked for and free.
MemoryFigures measure_memory(const BenchCase& one);

// One tensor of the residual stream, [batch, context, d_model].
std::size_t residual_bytes(const BenchCase& one);

}  // namespace strobe::lm
