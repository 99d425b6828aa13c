// How fast this GPU multiplies matrices: the ceiling that the bench holds results against. Called by
// bench/ceilings.cpp.
#pragma once

#include "strobe/dtype.h"

namespace strobe {

// cuBLAS's product of two matrices of random normal numbers, 8192 x 8192 (fp32: 4096 x 4096, without tf32), in FLOP/s:
// the best of ten runs. Throws Error(unsupported) where there is no GPU or no cuBLAS.
double gpu_product_rate(DType dtype);

// The same of fp32 matrices of 8192 x 8192 through tf32: what it would gain, at what flash2 never does to fp32.
double gpu_tf32_product_rate();

}  // namespace strobe
