// Candidate cuBLASLt algorithms for a matmul; linear.cpp times them and keeps the fastest.
#pragma once

#include <cublasLt.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "strobe/dtype.h"

namespace strobe::ops::cuda {

void check(cublasStatus_t status, const char* what);

// cuBLASLt is column-major and our matrices are row-major: it computes d^T = b^T a^T, so its A is our b.
struct Shape {
  std::int64_t m = 0, n = 0, k = 0;  // columns of d, rows of d, summed dimension
  std::int64_t lda = 0, ldb = 0, ldd = 0;
  std::int64_t matrices = 1, a_stride = 0, b_stride = 0, d_stride = 0;  // batch: elements between matrices
  bool a_transposed = false, b_transposed = false;
  DType in = DType::fp32, out = DType::fp32;
  bool adds = false, tf32 = false, timed = false;
  unsigned bias_alignment = 0;          // bytes; 0: no bias
  std::array<unsigned, 4> alignment{};  // bytes, for a, b, c, d
  std::size_t workspace = 0;
  int device = 0;

  auto operator<=>(const Shape&) const = default;
};

// Never destroyed: at exit the driver may be gone before a destructor runs.
struct Plan {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

using Algorithms = std::vector<cublasLtMatmulAlgo_t>;

// The heuristic's proposals, best first: one, or up to 32 for timing (it has about 8). Split-K sums are reduced in
// fp32, in the workspace, in a fixed order.
Algorithms ask_heuristic(cublasLtHandle_t handle, const Shape& shape, const Plan& plan);

// Variants of `proposal`: the tiles that should fill the GPU best, every cluster of up to two blocks, and every custom
// option of its kernels. Empty for a matmul too small to be worth a search.
Algorithms vary_tiles(cublasLtHandle_t handle, const Shape& shape, const Plan& plan,
                      const cublasLtMatmulAlgo_t& proposal);

}  // namespace strobe::ops::cuda
