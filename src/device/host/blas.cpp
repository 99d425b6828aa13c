// Implements blas.h: GEMM in row blocks, with one sgemm per block. The blocks depend only on the shape. If OpenBLAS
// distributed the work among its own threads, the rounding would depend on their number.
#include "device/host/blas.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "core/fail.h"

namespace strobe::blas {
namespace {

constexpr std::size_t kStackBytes = std::size_t{16} << 20;  // stack bytes per thread that OpenBLAS starts

std::mutex& session_mutex() {
  static std::mutex one;
  return one;
}

// Returns the number of concurrent callers for which OpenBLAS was compiled. OpenBLAS has twice as many buffers. A
// caller gets a null buffer if all are in use.
int max_callers(const BlasLibrary& library) {
  constexpr std::string_view key = "MAX_THREADS=";
  const std::string_view config = library.get_config();
  int most = 1;
  if (const std::size_t at = config.find(key); at != config.npos) {
    std::from_chars(config.data() + at + key.size(), config.data() + config.size(), most);
  }
  return std::max(1, most);
}

// Maps buffers for up to `callers` threads and returns how many threads have one. Released buffers stay mapped, so a
// process maps each one only once.
int map_buffers(const BlasLibrary& library, int callers) {
  static int mapped = 0;  // guarded by session_mutex()
  const int wanted = std::clamp(callers, 1, max_callers(library));
  if (wanted > mapped) {
    std::vector<void*> taken;
    taken.reserve(static_cast<std::size_t>(wanted));
    while (static_cast<int>(taken.size()) < wanted) {
      if (static_cast<int>(taken.size()) >= mapped && !can_map(library.buffer_bytes)) break;
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

}  // namespace

BlasSession::BlasSession(int callers, int own_threads)
    : lock_(session_mutex()),
      library_(blas_library()),
      callers_(map_buffers(library_, callers)),
      own_before_(library_.get_num_threads()),
      own_(own_threads) {
  const std::size_t bytes = static_cast<std::size_t>(own_) * (library_.buffer_bytes + kStackBytes);
  if (own_ > 1 && library_.buffer_bytes > 0 && !can_map(bytes)) {
    fail(ErrorCode::out_of_memory, "memory: cannot map {} MiB for {} threads of OpenBLAS", bytes >> 20, own_);
  }
  if (own_before_ != own_) library_.set_num_threads(own_);
}

BlasSession::~BlasSession() {
  if (own_before_ != own_) library_.set_num_threads(own_before_);
}

void gemm_block(const BlasSession& session, const Matrix& a, const Matrix& b, float* c, Accumulate accumulate) {
  if (a.rows == 0 || b.cols == 0) return;
  if (a.cols == 0) {
    if (accumulate == Accumulate::no) std::fill_n(c, a.rows * b.cols, 0.0f);
    return;
  }
  const auto order = [](const Matrix& m) { return m.stored_transposed ? CblasTrans : CblasNoTrans; };
  const float beta = accumulate == Accumulate::yes ? 1.0f : 0.0f;
  session.library().sgemm(CblasRowMajor, order(a), order(b), static_cast<int>(a.rows), static_cast<int>(b.cols),
                          static_cast<int>(a.cols), 1.0f, a.data, static_cast<int>(a.stride), b.data,
                          static_cast<int>(b.stride), beta, c, static_cast<int>(b.cols));
}

void gemm(const BlasSession& session, const Matrix& a, const Matrix& b, float* c, Accumulate accumulate) {
  for_row_blocks(session, {a.rows, a.cols, b.cols}, [&](int, std::int64_t first, std::int64_t count) {
    gemm_block(session, row_range(a, first, count), b, c + first * b.cols, accumulate);
  });
}

}  // namespace strobe::blas
