// Batched matmuls through cuBLAS, for the kernel `standard` on CUDA. Called by standard/cuda/standard.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strobe/dtype.h"

namespace strobe::standard {

// One row-major matrix per (sequence, KV head, query head of its group). Strides are in elements, 0 if shared.
struct Matrices {
  void* data = nullptr;
  std::int64_t batch = 0, head = 0, member = 0;
  std::int64_t row = 0;
};

enum class Operand { plain, transposed };
enum class Fp32Math { exact, tf32 };

// c [rows x cols] = factor * a [rows x inner] b [inner x cols]; a transposed operand is stored transposed.
struct Product {
  std::int64_t rows, cols, inner;
  Matrices a;
  Operand a_stored;
  Matrices b;
  Operand b_stored;
  Matrices c;
  std::int64_t batch, heads, members;  // number of matrices
  float factor = 1;
};

// A cuBLAS handle for one call, bound to the caller's stream and to memory of the caller's workspace. cuBLAS thus
// allocates nothing, results are bitwise reproducible, and a graph can capture the work. Handles are pooled for the
// life of the process: one per GPU and concurrent call.
class Cublas {
 public:
  // Returns the bytes of GPU memory that NVIDIA recommends for the card.
  static std::size_t workspace_bytes(int compute_capability);

  Cublas(DType dtype, void* stream, void* workspace, std::size_t bytes, Fp32Math math = Fp32Math::exact);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  // Computes fp32 in plain fp32 unless tf32 was requested; 16-bit types with fp32 sums, rounded once. Writes c, never
  // reads it.
  void multiply(const Product& product) const;

 private:
  DType dtype_;
  int device_ = 0;
  void* stream_ = nullptr;
  void* handle_ = nullptr;  // a cublasHandle_t
};

}  // namespace strobe::standard
