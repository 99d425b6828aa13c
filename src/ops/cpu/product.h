// Matmuls on the CPU for linear.cpp.
#pragma once

#include "device/host/blas.h"

namespace strobe::ops {

// c = a b, plus the addend if there is one. c and addend: [a.rows x b.cols], contiguous, possibly the same. The result
// is bitwise identical for any number of threads.
void multiply(int threads, const blas::Matrix& a, const blas::Matrix& b, const float* addend, float* c);

}  // namespace strobe::ops
