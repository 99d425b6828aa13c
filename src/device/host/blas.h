// Matrix products through OpenBLAS, shared over threads so that results do not depend on their number.
// `standard` and the operations of a language model call.
#pragma once

#include <cstdint>
#include <mutex>

namespace strobe::blas {

// OpenBLAS with one thread of its own while this lives; afterwards as before. The setting is one for the whole
// process, so calls take turns.
class BlasThreads {
 public:
  BlasThreads();
  ~BlasThreads();
  BlasThreads(const BlasThreads&) = delete;
  BlasThreads& operator=(const BlasThreads&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
  int before_;
};

// A matrix [rows x cols], or the transpose of one that is stored so.
struct Matrix {
  const float* data;
  std::int64_t rows, cols;
  std::int64_t stride;  // elements from one stored row to the next
  bool stored_transposed = false;
};

inline Matrix matrix(const float* data, std::int64_t rows, std::int64_t cols) { return {data, rows, cols, cols}; }

inline Matrix transposed(const Matrix& m) { return {m.data, m.cols, m.rows, m.stride, !m.stored_transposed}; }

enum class Accumulate { no, yes };

// c (+)= a b; c is contiguous, [a.rows x b.cols]. Needs a living BlasThreads.
void multiply(int threads, const Matrix& a, const Matrix& b, float* c, Accumulate accumulate = Accumulate::no);

}  // namespace strobe::blas
