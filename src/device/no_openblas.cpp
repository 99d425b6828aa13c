// The matmuls of blas_library.h without OpenBLAS: packed panels of columns, compiled per instruction set.
#include <algorithm>
#include <atomic>
#include <string>

#include "core/divide.h"
#include "core/fail.h"
#include "device/cpu/panels.h"
#include "device/host/blas_library.h"
#include "device/host/thread_pool.h"

namespace strobe::blas {

extern const Panels kPanelsGeneric, kPanelsAvx2, kPanelsAvx512, kPanelsNeon;

namespace {

std::atomic<int> own_threads = 1;

const Panels& panels_of(std::string_view name) {
#if defined(__x86_64__)
  if (name == "avx2") return kPanelsAvx2;
  if (name.starts_with("avx512") || name == "amx") return kPanelsAvx512;
#elif defined(__aarch64__)
  if (name.starts_with("neon")) return kPanelsNeon;
#endif
  static_cast<void>(name);
  return kPanelsGeneric;
}

// Returns the panels of STROBE_CPU_ISA, or of the most capable instruction set if the variable is not set. Reads the
// variable in each call, because tests change it. Ignores an instruction set that this machine lacks, as OpenBLAS does;
// kernels that depend on the variable reject it.
const Panels& chosen_panels() {
  const char* best = forced_instruction_set();
  if (*best && instruction_set_refusal(best).empty()) return panels_of(best);
  for (const InstructionSet& one : instruction_sets()) {
    if (one.available) best = one.name;
  }
  return panels_of(best);
}

template <class T>
bool accumulates(T alpha, T beta) {
  if (alpha != 1 || (beta != 0 && beta != 1)) {
    fail(ErrorCode::unsupported, "matmul: alpha is {} and beta {}; valid: alpha 1, beta 0 or 1", alpha, beta);
  }
  return beta == 1;
}

void sgemm(CBLAS_ORDER, CBLAS_TRANSPOSE order_a, CBLAS_TRANSPOSE order_b, int m, int n, int k, float alpha,
           const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc) {
  constexpr std::int64_t kRows = 264;  // rows per task, a multiple of every tile height (6 and 12)
  const Panels& panels = chosen_panels();
  const bool accumulate = accumulates(alpha, beta);
  const std::int64_t blocks = ceil_div(m, kRows), width = panels.columns;
  parallel_for(own_threads, blocks * ceil_div(n, width), [&](int, std::int64_t task) {
    const std::int64_t row = task % blocks * kRows, column = task / blocks * width;
    float* const to = c + row * ldc + column;
    panels.multiply({.a = a + row * (order_a == CblasTrans ? 1 : lda),
                     .b = b + column * (order_b == CblasTrans ? ldb : 1),
                     .a_stride = lda,
                     .b_stride = ldb,
                     .a_transposed = order_a == CblasTrans,
                     .b_transposed = order_b == CblasTrans,
                     .addend = accumulate ? to : nullptr,
                     .c = to,
                     .c_stride = ldc,
                     .rows = std::min(kRows, m - row),
                     .cols = std::min(width, n - column),
                     .steps = k});
  });
}

void dgemm(CBLAS_ORDER, CBLAS_TRANSPOSE order_a, CBLAS_TRANSPOSE order_b, int m, int n, int k, double alpha,
           const double* a, int lda, const double* b, int ldb, double beta, double* c, int ldc) {
  const bool a_transposed = order_a == CblasTrans, b_transposed = order_b == CblasTrans;
  chosen_panels().multiply_double({.a = a,
                                   .b = b,
                                   .a_row = a_transposed ? 1 : lda,
                                   .a_step = a_transposed ? lda : 1,
                                   .b_step = b_transposed ? 1 : ldb,
                                   .b_col = b_transposed ? ldb : 1,
                                   .c = c,
                                   .c_row = ldc,
                                   .m = m,
                                   .n = n,
                                   .k = k,
                                   .accumulate = accumulates(alpha, beta)});
}

int get_num_threads() { return own_threads; }
void set_num_threads(int threads) { own_threads = threads; }

// Same form as OpenBLAS's text: blas_version() returns the second word, BlasSession reads MAX_THREADS.
char* get_config() {
  static char text[] = "panels none MAX_THREADS=4096";
  return text;
}

char* get_corename() { return const_cast<char*>(chosen_panels().name); }

// There are no buffers to take, because panels are packed on the stack.
void* take_buffer(int) { return nullptr; }
void give_buffer(void*) {}

}  // namespace

const BlasLibrary& blas_library() {
  static constexpr BlasLibrary library = {sgemm,        dgemm,       get_num_threads, set_num_threads, get_config,
                                          get_corename, take_buffer, give_buffer,     nullptr,         0};
  return library;
}

std::string_view gemm_name() { return "panel sgemm"; }

}  // namespace strobe::blas
