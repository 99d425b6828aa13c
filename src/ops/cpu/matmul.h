// Matmuls on the CPU, for linear.cpp and batched_matmul.cpp.
#pragma once

#include "device/host/blas.h"

namespace strobe::ops {

// Computes c = a b + addend. c and addend are contiguous, [a.rows x b.cols]; they may be the same, and addend may be
// null. The result is bitwise identical for any number of threads.
void cpu_matmul(int threads, const blas::Matrix& a, const blas::Matrix& b, const float* addend, float* c);

}  // namespace strobe::ops
