// Bytes of a model's step from its shape alone, before anything is allocated. Whoever runs a case asks.
#pragma once

#include <cstddef>

#include "lm/step_bench.h"

namespace strobe::lm {

// Held at most, to the byte.
std::size_t predicted_bytes(const BenchCase& one);

// Of these, the most that one operation holds for itself: on CUDA the model's workspace, which is there all the time.
std::size_t predicted_workspace(const BenchCase& one);

// The case itself. Throws Error(out_of_memory) with the bytes asked for and free where it does not fit the device's
// memory `processes` times: a system that promises more than it has would end a process later. To one process a GPU's
// allocator says it by itself.
const BenchCase& check_memory(const BenchCase& one, int processes = 1);

}  // namespace strobe::lm
