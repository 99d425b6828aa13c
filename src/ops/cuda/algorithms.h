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

// Shape of a matmul, the key of the plan cache in linear.cpp. cuBLASLt is column-major and our matrices are row-major,
// so cuBLASLt computes d^T = b^T a^T. Its a is our b, and its b is our a.
struct Shape {
  std::int64_t m = 0, n = 0, k = 0;  // m: columns of our d; n: rows of our d; k: inner dimension
  std::int64_t lda = 0, ldb = 0, ldd = 0;
  std::int64_t matrices = 1, a_stride = 0, b_stride = 0, d_stride = 0;  // strides: elements between matrices of a batch
  bool a_transposed = false, b_transposed = false;
  DType in = DType::fp32, out = DType::fp32;
  bool adds = false, tf32 = false, timed = false;  // adds: has an addend; timed: linear.cpp times candidates
  unsigned bias_alignment = 0;                     // bytes; 0 if there is no bias
  std::array<unsigned, 4> alignment{};             // bytes, for a, b, addend (c) and d
  std::size_t workspace = 0;
  int device = 0;

  auto operator<=>(const Shape&) const = default;
};

// Descriptors and algorithm of a matmul. They are never destroyed, because at exit the driver may be gone before a
// destructor runs.
struct Plan {
  cublasLtMatmulDesc_t matmul = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

using Algorithms = std::vector<cublasLtMatmulAlgo_t>;

// Returns the heuristic's proposals, best first: one, or up to 32 if shape.timed (usually about 8). Split-K sums are
// reduced in fp32, in the workspace, in a fixed order.
Algorithms ask_heuristic(cublasLtHandle_t handle, const Shape& shape, const Plan& plan);

// Returns variants of `proposal` with the tile sizes that should fill the GPU best. Each tile size is combined with
// every cluster of up to two blocks and every custom option of the algorithm. Returns none if the matmul is too small
// to be worth a search.
Algorithms vary_tiles(cublasLtHandle_t handle, const Shape& shape, const Plan& plan,
                      const cublasLtMatmulAlgo_t& proposal);

}  // namespace strobe::ops::cuda
