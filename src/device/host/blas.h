// GEMM through OpenBLAS, distributed among Strobe's threads so that results do not depend on their number. Every call
// of an OpenBLAS matmul requires a BlasSession.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "core/divide.h"
#include "device/host/blas_library.h"
#include "device/host/thread_pool.h"

namespace strobe::blas {

// Locks OpenBLAS for one session at a time. Sets OpenBLAS's own thread count, a process-wide setting, for the session
// and restores it afterwards.
class BlasSession {
 public:
  // Maps packing buffers for up to `callers` threads in advance, because OpenBLAS would retry a failed mapping forever.
  // `own_threads` is the number of threads that OpenBLAS itself uses. Throws Error(out_of_memory) if no buffer can be
  // mapped, or if the memory for `own_threads` threads cannot.
  explicit BlasSession(int callers, int own_threads = 1);
  ~BlasSession();
  BlasSession(const BlasSession&) = delete;
  BlasSession& operator=(const BlasSession&) = delete;

  const BlasLibrary& library() const { return library_; }

  // Number of threads that may call OpenBLAS concurrently: from 1 to the constructor's `callers`.
  int callers() const { return callers_; }

 private:
  std::unique_lock<std::mutex> lock_;
  const BlasLibrary& library_;
  int callers_;
  int own_before_, own_;
};

// A row-major matrix [rows x cols], or the transpose of a stored one.
struct Matrix {
  const float* data;
  std::int64_t rows, cols;
  std::int64_t stride;  // elements between stored rows
  bool stored_transposed = false;
};

inline Matrix matrix(const float* data, std::int64_t rows, std::int64_t cols) { return {data, rows, cols, cols}; }

inline Matrix transposed(const Matrix& m) { return {m.data, m.cols, m.rows, m.stride, !m.stored_transposed}; }

enum class Accumulate { no, yes };

// Computes c (+)= a b; c is contiguous, [a.rows x b.cols].
void gemm(const BlasSession& session, const Matrix& a, const Matrix& b, float* c,
          Accumulate accumulate = Accumulate::no);

// The functions below are the steps of gemm(). Callers that prepare operands block by block use them; the results are
// equal to those of gemm().

// Returns rows [first, first + count) of a matrix.
inline Matrix row_range(const Matrix& m, std::int64_t first, std::int64_t count) {
  return {m.data + first * (m.stored_transposed ? 1 : m.stride), count, m.cols, m.stride, m.stored_transposed};
}

// Returns the number of rows per block of a GEMM with `rows` rows.
inline std::int64_t block_rows(std::int64_t rows) { return rows >= 1024 ? 256 : 64; }

// Computes one block on the calling thread. `a` is the block's row_range().
void gemm_block(const BlasSession& session, const Matrix& a, const Matrix& b, float* c, Accumulate accumulate);

struct ProductShape {
  std::int64_t rows, inner, cols;
};

// Calls body(thread, first, count) for each row block of a GEMM.
template <class Body>
void for_row_blocks(const BlasSession& session, const ProductShape& shape, Body&& body) {
  constexpr double kSmall = 1 << 18;  // FMAs below which a second thread does not pay off
  const std::int64_t block = block_rows(shape.rows);
  const double work =
      static_cast<double>(shape.rows) * static_cast<double>(shape.inner) * static_cast<double>(shape.cols);
  parallel_for(work < kSmall ? 1 : session.callers(), ceil_div(shape.rows, block), [&](int thread, std::int64_t task) {
    const std::int64_t first = task * block;
    body(thread, first, std::min(block, shape.rows - first));
  });
}

}  // namespace strobe::blas
