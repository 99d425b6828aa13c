// Measures the rates of OpenBLAS's sgemm and of memcpy, and the overhead of timing on the host.
#include "measure/rates.h"

#include <algorithm>
#include <cstring>

#include "core/clock.h"
#include "core/statistics.h"
#include "device/host/allocator.h"
#include "device/host/blas.h"
#include "device/host/thread_pool.h"

namespace strobe {
namespace {

// Returns the best rate (amount / time) of at least kLeast calls that together take about `seconds`, after a warm-up
// call. Calls must be short, because on a shared machine other processes interrupt most long calls.
template <class Call>
double best_rate(double amount, double seconds, Call&& call) {
  constexpr int kLeast = 4;
  call();
  double best = 0;
  int calls = 0;
  const double start = now_seconds();
  double end = start;
  do {
    const double begin = now_seconds();
    call();
    end = now_seconds();
    best = std::max(best, amount / (end - begin));
  } while (++calls < kLeast || end - start < seconds);
  return best;
}

void fill(float* data, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<float>(i * 2654435761u % 2001u) * 1e-3f - 1;
}

}  // namespace

double sgemm_rate(int threads, double seconds) {
  constexpr int n = 2048;
  const auto count = static_cast<std::size_t>(n) * static_cast<std::size_t>(n);
  Buffer a(count * sizeof(float));
  Buffer b(count * sizeof(float));
  Buffer c(count * sizeof(float));
  fill(a.as<float>(), count);
  fill(b.as<float>(), count);
  const blas::BlasSession session(1, threads);
  const double rate = best_rate(2.0 * n * n * n, seconds, [&] {
    session.library().sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a.as<float>(), n, b.as<float>(), n,
                            0, c.as<float>(), n);
  });
  return rate;
}

double timed_microsecond() {
  double samples[1001];
  for (double& sample : samples) {
    const double begin = now_seconds();
    const double called = now_seconds();
    while (now_seconds() - called < 1e-6) {
    }
    sample = now_seconds() - begin;
  }
  return summarize(samples).median;
}

double copy_rate(int threads, double seconds) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;  // bytes per array; larger than most caches
  Buffer source(kBytes);
  Buffer target(kBytes);
  const std::size_t part = kBytes / static_cast<std::size_t>(threads) / 64 * 64;
  const auto on_parts = [&](auto&& body) {
    parallel(threads, [&](int thread) {
      const std::size_t first = part * static_cast<std::size_t>(thread);
      body(target.as<char>() + first, source.as<char>() + first);
    });
  };
  on_parts([&](char* to, char* from) {
    std::memset(from, 1, part);
    std::memset(to, 2, part);
  });
  return best_rate(2.0 * static_cast<double>(part) * threads, seconds,
                   [&] { on_parts([&](char* to, const char* from) { std::memcpy(to, from, part); }); });
}

}  // namespace strobe
