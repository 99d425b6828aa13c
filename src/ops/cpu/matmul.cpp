// Implements matmul.h: selects the implementation of a CPU matmul. Our own kernels compute single rows and medium
// sizes. OpenBLAS, which packs both operands and is faster for large matrices, computes the rest.
#include "ops/cpu/matmul.h"

#include <algorithm>

#include "core/fail.h"
#include "device/host/thread_pool.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/sum.h"

namespace strobe::ops {

namespace {

constexpr std::int64_t kFewestRows = 16;   // fewer rows do not amortize packing a panel
constexpr std::int64_t kPromptRows = 512;  // up to this many rows, packing costs OpenBLAS more than its kernel gains
constexpr double kMostWork = 1 << 28;      // multiplications above which OpenBLAS is faster
constexpr double kSmall = 1 << 18;         // multiplications below which a second thread does not pay off
constexpr std::int64_t kBlock = 264;       // rows per task: a multiple of every tile height
constexpr std::int64_t kMostSize = (1ll << 31) - 1;  // largest size that OpenBLAS's 32-bit integers allow

void matmul_in_panels(const Isa& isa, int threads, const blas::Matrix& a, const blas::Matrix& b, const float* addend,
                      float* c) {
  const std::int64_t blocks = tasks_of(a.rows, kBlock), width = isa.matmul_columns;
  // Adjacent tasks have the same columns and different rows. With two row blocks, for example, each thread then keeps
  // its rows of `a` in cache.
  parallel_for(threads, blocks * tasks_of(b.cols, width), [&](int, std::int64_t task) {
    const std::int64_t row = task % blocks * kBlock, column = task / blocks * width, at = row * b.cols + column;
    isa.matmul({.a = a.data + row * (a.stored_transposed ? 1 : a.stride),
                .b = b.data + column * (b.stored_transposed ? b.stride : 1),
                .a_stride = a.stride,
                .b_stride = b.stride,
                .a_transposed = a.stored_transposed,
                .b_transposed = b.stored_transposed,
                .addend = addend ? addend + at : nullptr,
                .c = c + at,
                .c_stride = b.cols,
                .rows = std::min(kBlock, a.rows - row),
                .cols = std::min(width, b.cols - column),
                .steps = a.cols});
  });
}

// Computes c [1 x out] = a b + addend, where b is stored as [out, in].
void matmul_single_row(const Isa& isa, int threads, const blas::Matrix& a, const blas::Matrix& b, const float* addend,
                       float* c) {
  constexpr std::int64_t kWeights = 32768;  // elements of b per task: 128 KB, which takes a few microseconds to read
  const std::int64_t share = std::max<std::int64_t>(1, kWeights / std::max<std::int64_t>(1, b.rows));
  parallel_for(threads, tasks_of(b.cols, share), [&](int, std::int64_t task) {
    const std::int64_t first = task * share;
    isa.matmul_row({.x = a.data,
                    .weight = b.data + first * b.stride,
                    .stride = b.stride,
                    .addend = addend ? addend + first : nullptr,
                    .y = c + first,
                    .in = b.rows,
                    .out = std::min(share, b.cols - first)});
  });
}

void matmul_by_blas(int threads, const blas::Matrix& a, const blas::Matrix& b, const float* addend, float* c) {
  for (const std::int64_t size : {a.rows, a.cols, b.cols}) {
    if (size > kMostSize) {
      fail(ErrorCode::unsupported, "ops: a matmul has size {}; with OpenBLAS sizes must be below 2^31", size);
    }
  }
  if (addend && addend != c) std::copy_n(addend, a.rows * b.cols, c);
  const blas::BlasSession session(threads);
  blas::gemm(session, a, b, c, addend ? blas::Accumulate::yes : blas::Accumulate::no);
}

}  // namespace

void cpu_matmul(int threads, const blas::Matrix& a, const blas::Matrix& b, const float* addend, float* c) {
  const Isa& isa = chosen_isa();
  if (a.rows == 1 && !a.stored_transposed && b.stored_transposed) {
    return matmul_single_row(isa, threads, a, b, addend, c);
  }
  const double work = static_cast<double>(a.rows) * static_cast<double>(a.cols) * static_cast<double>(b.cols);
  const bool is_prompt = a.rows <= kPromptRows && !a.stored_transposed && b.stored_transposed;
  if (isa.matmul_columns == 0 || a.rows < kFewestRows || (work > kMostWork && !is_prompt)) {
    return matmul_by_blas(threads, a, b, addend, c);
  }
  matmul_in_panels(isa, work < kSmall ? 1 : threads, a, b, addend, c);
}

}  // namespace strobe::ops
