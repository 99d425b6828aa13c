// GEMM in blocks of rows, one sgemm per block. The blocks depend only on the shape. With OpenBLAS's own threads the
// split, and so the rounding, would depend on the number of threads.
#include "device/host/blas.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "core/divide.h"
#include "core/fail.h"
#include "device/host/thread_pool.h"

namespace strobe::blas {
namespace {

constexpr double kSmall = 1 << 18;  // multiplications below which a second thread does not pay
constexpr std::size_t kThreadBytes = kBufferBytes + (std::size_t{16} << 20);  // per OpenBLAS thread: buffer and stack

std::mutex& session_mutex() {
  static std::mutex one;
  return one;
}

// Concurrent callers that OpenBLAS was compiled for. It has twice as many buffers; more callers get a null buffer.
int most_callers(const BlasLibrary& library) {
  constexpr std::string_view key = "MAX_THREADS=";
  const std::string_view config = library.get_config();
  int most = 1;
  if (const std::size_t at = config.find(key); at != config.npos) {
    std::from_chars(config.data() + at + key.size(), config.data() + config.size(), most);
  }
  return std::max(1, most);
}

// Returns how many of `callers` threads have a buffer. Buffers stay mapped after they are given back, so a process
// pays for each only once.
int map_buffers(const BlasLibrary& library, int callers) {
  static int mapped = 0;  // guarded by session_mutex()
  const int wanted = std::clamp(callers, 1, most_callers(library));
  if (wanted > mapped) {
    std::vector<void*> taken;
    taken.reserve(static_cast<std::size_t>(wanted));
    while (static_cast<int>(taken.size()) < wanted) {
      if (static_cast<int>(taken.size()) >= mapped && !can_map(kBufferBytes)) break;
      taken.push_back(library.take_buffer(0));
    }
    for (void* const buffer : taken) library.give_buffer(buffer);
    mapped = std::max(mapped, static_cast<int>(taken.size()));
  }
  if (mapped == 0) {
    fail(ErrorCode::out_of_memory, "memory: cannot map {} MiB for a buffer of OpenBLAS", kBufferBytes >> 20);
  }
  return std::min(wanted, mapped);
}

// c's first row is that of a.
void multiply_block(const BlasLibrary& library, const Matrix& a, const Matrix& b, float* c, float beta) {
  const auto order = [](const Matrix& m) { return m.stored_transposed ? CblasTrans : CblasNoTrans; };
  library.sgemm(CblasRowMajor, order(a), order(b), static_cast<int>(a.rows), static_cast<int>(b.cols),
                static_cast<int>(a.cols), 1.0f, a.data, static_cast<int>(a.stride), b.data, static_cast<int>(b.stride),
                beta, c, static_cast<int>(b.cols));
}

Matrix rows_of(const Matrix& m, std::int64_t first, std::int64_t count) {
  return {m.data + first * (m.stored_transposed ? 1 : m.stride), count, m.cols, m.stride, m.stored_transposed};
}

}  // namespace

BlasSession::BlasSession(int callers, int own_threads)
    : lock_(session_mutex()),
      library_(blas_library()),
      callers_(map_buffers(library_, callers)),
      own_before_(library_.get_num_threads()),
      own_(own_threads) {
  if (own_ > 1 && !can_map(static_cast<std::size_t>(own_) * kThreadBytes)) {
    fail(ErrorCode::out_of_memory, "memory: cannot map {} MiB for {} threads of OpenBLAS",
         static_cast<std::size_t>(own_) * (kThreadBytes >> 20), own_);
  }
  if (own_before_ != own_) library_.set_num_threads(own_);
}

BlasSession::~BlasSession() {
  if (own_before_ != own_) library_.set_num_threads(own_before_);
}

void multiply(const BlasSession& session, const Matrix& a, const Matrix& b, float* c, Accumulate accumulate) {
  if (a.rows == 0 || b.cols == 0) return;
  if (a.cols == 0) {
    if (accumulate == Accumulate::no) std::fill_n(c, a.rows * b.cols, 0.0f);
    return;
  }
  const std::int64_t block = a.rows >= 1024 ? 256 : 64;
  const double work = static_cast<double>(a.rows) * static_cast<double>(a.cols) * static_cast<double>(b.cols);
  parallel_for(work < kSmall ? 1 : session.callers(), ceil_div(a.rows, block), [&](int, std::int64_t task) {
    const std::int64_t first = task * block;
    const Matrix part = rows_of(a, first, std::min(block, a.rows - first));
    multiply_block(session.library(), part, b, c + first * b.cols, accumulate == Accumulate::yes ? 1.0f : 0.0f);
  });
}

}  // namespace strobe::blas
