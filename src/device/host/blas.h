// Matrix products through OpenBLAS, split over Strobe's threads so that results do not depend on their number. Every
// call of OpenBLAS is made inside a BlasSession.
#pragma once

#include <cstdint>
#include <mutex>

#include "device/host/blas_library.h"

namespace strobe::blas {

// Holds OpenBLAS for one caller at a time. Sets OpenBLAS's own thread count for the session, which is a setting of the
// whole process, and restores it afterwards.
class BlasSession {
 public:
  // Maps packing buffers for `callers` threads, since OpenBLAS would retry a failed mapping forever. Throws
  // Error(out_of_memory) if not even one can be mapped.
  explicit BlasSession(int callers, int own_threads = 1);
  ~BlasSession();
  BlasSession(const BlasSession&) = delete;
  BlasSession& operator=(const BlasSession&) = delete;

  const BlasLibrary& library() const { return library_; }

  // Threads that may call OpenBLAS concurrently: 1 to the constructor's `callers`.
  int callers() const { return callers_; }

 private:
  std::unique_lock<std::mutex> lock_;
  const BlasLibrary& library_;
  int callers_;
  int own_before_, own_;
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

// c (+)= a b; c is contiguous, [a.rows x b.cols].
void multiply(const BlasSession& session, const Matrix& a, const Matrix& b, float* c,
              Accumulate accumulate = Accumulate::no);

}  // namespace strobe::blas
