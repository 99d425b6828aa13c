// Products in blocks of rows, one call of sgemm each. The blocks follow from the shape alone: OpenBLAS's own threads
// would cut a product by their number, and round accordingly.
#include "device/host/blas.h"

#include <cblas.h>

#include <algorithm>

#include "core/divide.h"
#include "device/host/thread_pool.h"

namespace strobe::blas {
namespace {

constexpr double kSmall = 1 << 18;  // multiplications below which a second thread does not pay

std::mutex& turns() {
  static std::mutex one;
  return one;
}

// c's first row is that of a.
void multiply_block(const Matrix& a, const Matrix& b, float* c, float beta) {
  const auto order = [](const Matrix& m) { return m.stored_transposed ? CblasTrans : CblasNoTrans; };
  cblas_sgemm(CblasRowMajor, order(a), order(b), static_cast<int>(a.rows), static_cast<int>(b.cols),
              static_cast<int>(a.cols), 1.0f, a.data, static_cast<int>(a.stride), b.data, static_cast<int>(b.stride),
              beta, c, static_cast<int>(b.cols));
}

Matrix rows_of(const Matrix& m, std::int64_t first, std::int64_t count) {
  return {m.data + first * (m.stored_transposed ? 1 : m.stride), count, m.cols, m.stride, m.stored_transposed};
}

}  // namespace

BlasThreads::BlasThreads() : lock_(turns()), before_(openblas_get_num_threads()) {
  if (before_ != 1) openblas_set_num_threads(1);
}

BlasThreads::~BlasThreads() {
  if (before_ != 1) openblas_set_num_threads(before_);
}

void multiply(int threads, const Matrix& a, const Matrix& b, float* c, Accumulate accumulate) {
  if (a.rows == 0 || b.cols == 0) return;
  if (a.cols == 0) {
    if (accumulate == Accumulate::no) std::fill_n(c, a.rows * b.cols, 0.0f);
    return;
  }
  const std::int64_t block = a.rows >= 1024 ? 256 : 64;
  const double work = static_cast<double>(a.rows) * static_cast<double>(a.cols) * static_cast<double>(b.cols);
  parallel_for(work < kSmall ? 1 : threads, ceil_div(a.rows, block), [&](int, std::int64_t task) {
    const std::int64_t first = task * block;
    const Matrix part = rows_of(a, first, std::min(block, a.rows - first));
    multiply_block(part, b, c + first * b.cols, accumulate == Accumulate::yes ? 1.0f : 0.0f);
  });
}

}  // namespace strobe::blas
