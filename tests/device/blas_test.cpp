// Tests the choice of OpenBLAS's kernels, matmuls, and OpenBLAS sessions with and without enough address space. Tests
// that limit the address space or inspect a freshly loaded OpenBLAS run in a child process.
#include "device/host/blas.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <vector>

#include "strobe/error.h"
#include "support/sanitized.h"

namespace strobe::blas {
namespace {

// Returns the exit code of a child that runs `body`; -1 if the child crashes or runs longer than 10 s.
template <class Body>
int exit_code_of(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#ifndef STROBE_OPENBLAS_LINKED  // a static OpenBLAS starts its threads when the program starts

// Limits the address space of this process to `bytes` more than its current use.
void limit_to(std::size_t bytes) {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + bytes;
  const rlimit limit{most, most};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

// Computes a 2 x 2 matmul in a session of `callers` threads. Returns an exit code; 0 if everything was correct.
int matmul_exit_code(int callers) {
  try {
    const BlasSession session(callers);
    if (session.callers() < 1 || session.callers() > callers) return 4;
    const float a[4] = {1, 2, 3, 4};
    float c[4];
    gemm(session, matrix(a, 2, 2), matrix(a, 2, 2), c);
    return c[0] == 7 && c[3] == 22 ? 0 : 4;
  } catch (const Error& error) {
    return static_cast<int>(error.code());
  }
}

TEST(Blas, NoAddressSpaceIsAnError) {
  if (blas_library().buffer_bytes == 0) GTEST_SKIP() << "no OpenBLAS, which maps buffers";
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer maps terabytes";
  for (const std::size_t megabytes : {1, 8, 32, 64, 127}) {
    const int code = exit_code_of([&] {
      limit_to(megabytes << 20);
      return matmul_exit_code(64);
    });
    EXPECT_EQ(code, static_cast<int>(ErrorCode::out_of_memory)) << megabytes << " MiB";
  }
}

TEST(Blas, AllowsFewerCallersIfFewerBuffersFit) {
  if (blas_library().buffer_bytes == 0) GTEST_SKIP() << "no OpenBLAS, which maps buffers";
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer maps terabytes";
  EXPECT_EQ(exit_code_of([&] {
              blas_library();
              limit_to(2 * kBufferBytes);
              return matmul_exit_code(64);
            }),
            0);
}

TEST(Blas, LoadsWithoutThreads) {
  EXPECT_EQ(exit_code_of([] { return blas_library().get_num_threads(); }), 1);
}

TEST(Blas, ReplacesTheFallbackIfBetterKernelsExist) {
  if (std::getenv("OPENBLAS_CORETYPE")) GTEST_SKIP() << "OPENBLAS_CORETYPE is set";
  EXPECT_EQ(exit_code_of([] { return better_core(blas_library().get_corename(), instruction_sets()) ? 4 : 0; }), 0);
}

#endif

TEST(Blas, ReplacesOnlyTheFallbackOfAnUnknownProcessor) {
  const InstructionSet old[] = {{"generic", true}, {"avx2", false}, {"avx512", false}};
  const InstructionSet avx2[] = {{"generic", true}, {"avx2", true}, {"avx512", false}};
  const InstructionSet avx512[] = {{"generic", true}, {"avx2", true}, {"avx512", true}};
  EXPECT_EQ(better_core("Prescott", old), nullptr);
  EXPECT_STREQ(better_core("Prescott", avx2), "Haswell");
  EXPECT_STREQ(better_core("Prescott", avx512), "SkylakeX");
  EXPECT_EQ(better_core("Haswell", avx512), nullptr);
}

// Compares odd sizes, transposed operands and accumulation with sums in float64.
TEST(Blas, GemmMatchesSumsInFloat64) {
  constexpr std::int64_t m = 67, n = 45, k = 301;
  std::vector<float> a(m * k), b(k * n);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 7 % 31) / 31 - 0.5f;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * 5 % 29) / 29 - 0.5f;
  const BlasSession session(2);
  for (const bool a_transposed : {false, true}) {
    for (const bool b_transposed : {false, true}) {
      const Matrix left = a_transposed ? transposed(matrix(a.data(), k, m)) : matrix(a.data(), m, k);
      const Matrix right = b_transposed ? transposed(matrix(b.data(), n, k)) : matrix(b.data(), k, n);
      std::vector<float> c(m * n, 1);
      gemm(session, left, right, c.data(), Accumulate::yes);
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          double sum = 1;
          for (std::int64_t t = 0; t < k; ++t) {
            sum += static_cast<double>(a[static_cast<std::size_t>(a_transposed ? t * m + i : i * k + t)]) *
                   b[static_cast<std::size_t>(b_transposed ? j * k + t : t * n + j)];
          }
          ASSERT_NEAR(c[static_cast<std::size_t>(i * n + j)], sum, 1e-4) << i << ", " << j;
        }
      }
    }
  }
}

TEST(Blas, ASessionRestoresTheThreadCount) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not support threads that start in a child of a multithreaded process";
#endif
  EXPECT_EQ(exit_code_of([] {
              const int before = blas_library().get_num_threads();
              {
                const BlasSession session(1, 2);
                if (session.library().get_num_threads() != 2) return 4;
              }
              return blas_library().get_num_threads() == before ? 0 : 4;
            }),
            0);
}

}  // namespace
}  // namespace strobe::blas
