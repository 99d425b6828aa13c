// Measures the peak rate of flash2's packed matmul on this machine and returns the name of its instruction set. Besides
// public headers, bench/ includes only this header and standard/gpu_matmul_rate.h from attention/.
#pragma once

#include <optional>
#include <string>

#include "strobe/dtype.h"

namespace strobe {

// Returns the total FLOP/s of matmuls from packed panels in cache, on `threads` threads at once, with the instruction
// set that choose_isa returns for the type. The total is the sum of each thread's best rate within about `seconds`
// seconds. Returns nothing if STROBE_CPU_ISA names no available instruction set.
std::optional<double> matmul_rate(DType dtype, int threads, double seconds);

// Returns the name of that instruction set, or "none" if STROBE_CPU_ISA names no available one.
std::string instruction_set_for(DType dtype);

}  // namespace strobe
