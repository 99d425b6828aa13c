// Suggests other flags if a training step does not fit in memory. The memory checks of device_memory.cpp and
// training_backend.cpp use it in their errors.
#pragma once

#include <cstddef>
#include <string>

#include "lm/plan/bench_case.h"

namespace strobe::lm {

// Returns the flags that each make the step fit in `free` bytes: "valid: --batch 3 or --recompute block or --precision
// bf16". If none does, returns recomputation with a smaller batch, or a text that says that no smaller batch fits.
std::string memory_advice(const BenchCase& one, std::size_t free);

}  // namespace strobe::lm
