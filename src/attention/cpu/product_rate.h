// What the packed matrix product at the heart of flash2 reaches on this machine, and by which instruction set: with
// standard/gpu_product_rate.h the only headers of attention/ besides the public ones that bench/ includes.
#pragma once

#include <optional>
#include <string>

#include "strobe/dtype.h"

namespace strobe {

// FLOP/s of C += A B from packed panels in cache, of the instruction set that choose_isa gives for the type, on that
// many threads at once; best of the runs in about that many seconds. Empty where STROBE_CPU_ISA names none.
std::optional<double> matrix_product_rate(DType dtype, int threads, double seconds);

// Name of that instruction set; "none" likewise.
std::string instruction_set_for(DType dtype);

}  // namespace strobe
