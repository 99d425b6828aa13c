// Bytes of a model's step from its shape alone, before anything is allocated. Whoever runs a case asks.
#pragma once

#include <cstddef>

#include "lm/profile/step_bench.h"

namespace strobe::lm {

// Held at most, to the byte.
std::size_t predicted_bytes(const BenchCase& one);

// Of these, the most that one operation holds for itself: on CUDA the model's workspace, which is there all the time.
std::size_t predicted_workspace(const BenchCase& one);

// The case itself. Throws Error(out_of_memory) with the bytes asked for and free where it does not fit the CPU's
// memory: a system that promises more than it has would end a process later. A GPU's allocator says it by itself.
const BenchCase& check_memory(const BenchCase& one);

// The same of so many processes that share the device, before any of them allocates; of a GPU too.
void check_shared_memory(const BenchCase& one, int processes);

}  // namespace strobe::lm
