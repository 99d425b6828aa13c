// Batched matmuls through cuBLAS, for the CUDA kernels `standard` and `frugal` (standard.cpp) and gpu_matmul_rate.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strobe/dtype.h"

namespace strobe::standard {

// Row-major matrices, one per sequence, KV head and query head of its group (member). Strides are in elements; 0 means
// that matrices are shared.
struct Matrices {
  void* data = nullptr;
  std::int64_t batch = 0, head = 0, member = 0;
  std::int64_t row = 0;
};

enum class Operand { plain, transposed };
enum class Fp32Math { exact, tf32 };

// c [rows x cols] = factor * a [rows x inner] b [inner x cols]. With Operand::transposed,
// memory has the transpose: a as [inner x rows], b as [cols x inner].
struct Matmul {
  std::int64_t rows, cols, inner;
  Matrices a;
  Operand a_stored;
  Matrices b;
  Operand b_stored;
  Matrices c;
  std::int64_t batch, heads, members;  // numbers of matrices
  float factor = 1;
};

// A cuBLAS handle for one call, bound to the caller's stream and to memory of the caller's workspace. Matmuls thus
// allocate nothing, results are bitwise reproducible, and the work can be captured in a graph. Handles are reused until
// the process ends: one per GPU and concurrent call.
class Cublas {
 public:
  // Returns the workspace size that NVIDIA recommends for the GPU.
  static std::size_t workspace_bytes(int compute_capability);

  Cublas(DType dtype, void* stream, void* workspace, std::size_t bytes, Fp32Math math = Fp32Math::exact);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  // Computes c without reading it. fp32 uses fp32 arithmetic unless TF32 was requested. 16-bit types are summed in fp32
  // and rounded once.
  void gemm(const Matmul& matmul) const;

 private:
  DType dtype_;
  int device_ = 0;
  void* stream_ = nullptr;
  void* handle_ = nullptr;  // a cublasHandle_t
};

}  // namespace strobe::standard
