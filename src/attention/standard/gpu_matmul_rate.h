// Measures the matmul rate of this GPU, with which the benchmark compares results. Called by bench/ceilings.cpp.
#pragma once

#include "strobe/dtype.h"

namespace strobe {

// Returns the FLOP/s of cuBLAS for two matrices of random normal numbers, best of ten runs. The matrices are
// 8192 x 8192, or 4096 x 4096 for fp32, which does not use TF32. Throws an Error without a GPU or cuBLAS.
double gpu_matmul_rate(DType dtype);

// Returns the FLOP/s, measured in the same way, for fp32 matrices of 8192 x 8192 with TF32.
double gpu_tf32_matmul_rate();

}  // namespace strobe
