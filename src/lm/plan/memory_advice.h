// What to change if a training step does not fit in memory.
#pragma once

#include <cstddef>
#include <string>

#include "lm/plan/bench_case.h"

namespace strobe::lm {

// Returns the flags that would make the step fit in `free` bytes, each tried alone and with all recomputation:
// "valid: --batch 3, --recompute block or --precision bf16". Says that none would if there is none.
std::string memory_advice(const BenchCase& one, std::size_t free);

// "37.1 GiB (39850000000 bytes)", so that a message can be read and searched.
std::string gibibytes(std::size_t bytes);

}  // namespace strobe::lm
