// Tests CPU matmuls of small integers. Their sums are exact in fp32 in any order, so results are compared bit by bit.
#include "ops/cpu/matmul.h"

#include <gtest/gtest.h>

#include <optional>

#include "ops/cpu/isa.h"
#include "support/isa_scope.h"

namespace strobe::ops {
namespace {

constexpr std::size_t kMatmulGuard = 64;
constexpr float kCanary = 1234567;

std::vector<float> integers(std::size_t count, unsigned seed) {
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>((i * 7919 + seed * 104729 + i / 13) % 9) - 4);
  }
  return values;
}

struct Case {
  std::int64_t rows, cols, steps;
  bool a_transposed, b_transposed;
};

// Returns element (row, column) of an operand in either storage order.
float element(const blas::Matrix& m, std::int64_t row, std::int64_t column) {
  return m.data[m.stored_transposed ? column * m.stride + row : row * m.stride + column];
}

blas::Matrix stored(const std::vector<float>& data, std::int64_t rows, std::int64_t cols, bool transposed) {
  return transposed ? blas::transposed(blas::matrix(data.data(), cols, rows)) : blas::matrix(data.data(), rows, cols);
}

void expect_exact(const Case& t) {
  SCOPED_TRACE(testing::Message() << t.rows << " x " << t.steps << " x " << t.cols << (t.a_transposed ? ", a'" : "")
                                  << (t.b_transposed ? ", b'" : ""));
  const auto size = [](std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); };
  const std::vector<float> a_data = integers(size(t.rows, t.steps), 1), b_data = integers(size(t.steps, t.cols), 2);
  const blas::Matrix a = stored(a_data, t.rows, t.steps, t.a_transposed),
                     b = stored(b_data, t.steps, t.cols, t.b_transposed);
  const std::size_t count = size(t.rows, t.cols);
  const std::vector<float> addend = integers(count, 3);
  std::vector<float> exact(count);
  for (std::int64_t r = 0; r < t.rows; ++r) {
    for (std::int64_t s = 0; s < t.steps; ++s) {
      for (std::int64_t c = 0; c < t.cols; ++c)
        exact[size(r, t.cols) + size(1, c)] += element(a, r, s) * element(b, s, c);
    }
  }
  enum { kNone, kOther, kItself };
  for (const int added : {kNone, kOther, kItself}) {
    std::vector<float> c(count + 2 * kMatmulGuard, kCanary);
    float* const out = c.data() + kMatmulGuard;
    if (added == kItself) std::copy(addend.begin(), addend.end(), out);
    cpu_matmul(2, a, b, added == kNone ? nullptr : added == kOther ? addend.data() : out, out);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(out[i], exact[i] + (added == kNone ? 0 : addend[i])) << "element " << i << ", addend " << added;
    }
    for (std::size_t i = 0; i < kMatmulGuard; ++i) {
      ASSERT_EQ(c[i], kCanary) << "before c";
      ASSERT_EQ(c[kMatmulGuard + count + i], kCanary) << "after c";
    }
  }
}

TEST(Matmul, ExactOnEveryInstructionSetAndAtEveryEdge) {
  for (const std::string& name : test::available_isas()) {
    SCOPED_TRACE(name);
    const test::IsaScope scope(name);
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) {
        for (std::int64_t rows = 15; rows <= 29; ++rows) expect_exact({rows, 33, 17, a_transposed, b_transposed});
        for (const std::int64_t cols : {1, 15, 16, 17, 31, 32, 63, 65}) {
          expect_exact({18, cols, 5, a_transposed, b_transposed});
        }
        for (const std::int64_t steps : {0, 1, 15, 16, 255, 256, 257, 513}) {
          expect_exact({24, 35, steps, a_transposed, b_transposed});
        }
        expect_exact({265, 40, 31, a_transposed, b_transposed});  // two row blocks
        expect_exact({100, 7, 20, a_transposed, b_transposed});   // several row blocks of a tail panel
        expect_exact({0, 40, 31, a_transposed, b_transposed});
        expect_exact({40, 0, 31, a_transposed, b_transposed});
      }
    }
  }
}

TEST(Matmul, BitwiseTheSameForAnyNumberOfThreads) {
  const std::int64_t rows = 301, cols = 77, steps = 300;
  std::vector<float> a, b;
  for (int i = 0; i < rows * steps; ++i) a.push_back(1 / static_cast<float>(i % 97 + 1));
  for (int i = 0; i < steps * cols; ++i) b.push_back(1 / static_cast<float>(i % 89 + 3));
  for (const std::string& name : test::available_isas()) {
    const test::IsaScope scope(name);
    std::optional<std::vector<float>> first;
    for (const int threads : {1, 2, 3, 7}) {
      std::vector<float> c(static_cast<std::size_t>(rows * cols));
      cpu_matmul(threads, blas::matrix(a.data(), rows, steps), blas::matrix(b.data(), steps, cols), nullptr, c.data());
      if (!first) first = c;
      EXPECT_EQ(*first, c) << name << ", " << threads << " threads";
    }
  }
}

TEST(Matmul, LongSumsAreRoundedPerChunk) {
  const std::int64_t rows = 16, cols = 16, steps = 4096;
  std::vector<float> a(static_cast<std::size_t>(rows * steps), 1), b(static_cast<std::size_t>(steps * cols), 0.1f);
  for (const std::string& name : test::available_isas()) {
    const test::IsaScope scope(name);
    if (chosen_isa().matmul_columns == 0) continue;  // OpenBLAS's summation order is unknown
    std::vector<float> c(static_cast<std::size_t>(rows * cols));
    cpu_matmul(1, blas::matrix(a.data(), rows, steps), blas::matrix(b.data(), steps, cols), nullptr, c.data());
    for (const float one : c) EXPECT_NEAR(one, 4096 * static_cast<double>(0.1f), 2e-3) << name;
  }
}

}  // namespace
}  // namespace strobe::ops
