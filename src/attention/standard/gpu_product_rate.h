// Matmul rate of this GPU: the ceiling that the bench compares results with. Called by bench/ceilings.cpp.
#pragma once

#include "strobe/dtype.h"

namespace strobe {

// Returns the FLOP/s of cuBLAS's matmul of two matrices of random normal numbers, 8192 x 8192 (fp32: 4096 x 4096,
// without tf32), best of ten runs. Throws Error(unsupported) without a GPU or cuBLAS.
double gpu_product_rate(DType dtype);

// The same for fp32 matrices of 8192 x 8192 with TF32.
double gpu_tf32_product_rate();

}  // namespace strobe
