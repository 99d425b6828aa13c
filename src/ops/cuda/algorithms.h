// What cuBLASLt may compute a product with; linear.cpp times these and keeps the fastest.
#pragma once

#include <cublasLt.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "strobe/dtype.h"

namespace strobe::ops::cuda {

void check(cublasStatus_t status, const char* what);

// cuBLASLt reads column by column, where our matrices are their transposes: d^T = b^T a^T. So its A is our b.
struct Shape {
  std::int64_t m = 0, n = 0, k = 0;  // columns of d, rows of d, what is summed over
  std::int64_t lda = 0, ldb = 0, ldd = 0;
  std::int64_t matrices = 1, a_stride = 0, b_stride = 0, d_stride = 0;  // batch: elements between matrices
  bool a_transposed = false, b_transposed = false;
  DType in = DType::fp32, out = DType::fp32;
  bool adds = false, tf32 = false, timed = false;
  unsigned bias_alignment = 0;          // bytes; 0: no bias
  std::array<unsigned, 4> alignment{};  // bytes, of a, b, c, d
  std::size_t workspace = 0;
  int device = 0;

  auto operator<=>(const Shape&) const = default;
};

// Kept for the process's life, as at exit the driver may be gone before a destructor runs.
struct Plan {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

using Algorithms = std::vector<cublasLtMatmulAlgo_t>;

// The heuristic's proposals, its best first: one, or up to 32 where they are to be timed (it has about 8). Sums that
// are split are added up in fp32, in the workspace, in one order.
Algorithms ask_heuristic(cublasLtHandle_t handle, const Shape& shape, const Plan& plan);

// `proposal` with other tiles, those that should fill the GPU best, in every cluster of up to two and with every option
// of its kernels. Empty for a product too small to be worth a search.
Algorithms vary_tiles(cublasLtHandle_t handle, const Shape& shape, const Plan& plan,
                      const cublasLtMatmulAlgo_t& proposal);

}  // namespace strobe::ops::cuda
