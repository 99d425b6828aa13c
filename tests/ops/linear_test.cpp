// Tests linear layers and column sums on the CPU: values and gradients in every dtype, and the forward on every
// instruction set.
#include "ops/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/differences.h"
#include "ops/tensors.h"
#include "support/isa_scope.h"

namespace strobe::ops {
namespace {

// Computes y [rows, out] = x W^T and both gradients in float64.
struct Exact {
  std::vector<double> y, dx, dweight;
  Exact(std::size_t rows, std::size_t in, std::size_t out, const std::vector<double>& x,
        const std::vector<double>& weight, const std::vector<double>& dy)
      : y(rows * out), dx(rows * in), dweight(out * in) {
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t o = 0; o < out; ++o) {
        for (std::size_t i = 0; i < in; ++i) {
          y[r * out + o] += x[r * in + i] * weight[o * in + i];
          dx[r * in + i] += dy[r * out + o] * weight[o * in + i];
          dweight[o * in + i] += dy[r * out + o] * x[r * in + i];
        }
      }
    }
  }
};

TEST(Linear, AllThreeMatmulsInEveryType) {
  const std::size_t rows = 19, in = 33, out = 12;
  for (const DType dtype : kTypes) {
    const Values x(dtype, normal_values(rows * in, 1)), weight(dtype, normal_values(out * in, 2)),
        dy(dtype, normal_values(rows * out, 3));
    const Linear shape{.rows = rows, .in = in, .out = out, .dtype = dtype};
    Values y(dtype, rows * out), dx(dtype, std::vector<double>(rows * in, 1));
    std::vector<float> dweight(out * in, 2);
    const ExecutionContext execution{.threads = 2};
    linear(execution, shape, x.data(), weight.data(), y.data());
    linear_backward_input(execution, shape, dy.data(), weight.data(), dx.data(), Into::sum);
    linear_backward_weight(execution, shape, dy.data(), x.data(), dweight.data());
    const Exact exact(rows, in, out, x.widened(), weight.widened(), dy.widened());
    const double unit = unit_of(dtype);
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], exact.y[i], 32 * unit) << i;
    for (std::size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(dx[i], 1 + exact.dx[i], 32 * unit) << i;
    for (std::size_t i = 0; i < dweight.size(); ++i) EXPECT_NEAR(dweight[i], 2 + exact.dweight[i], 1e-4) << i;
    linear_backward_input(execution, shape, dy.data(), weight.data(), dx.data(), Into::set);
    for (std::size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(dx[i], exact.dx[i], 32 * unit) << i;
  }
}

// A single row of x has a separate kernel, which computes 4 outputs at a time. Tests widths below, at and above
// multiples of a vector, and numbers of outputs that are and are not multiples of 4.
TEST(Linear, SingleRowInEveryInstructionSet) {
  for (const std::string& name : test::available_isas()) {
    const test::IsaScope isa(name);
    for (const std::size_t in : {1, 3, 16, 17, 100, 129}) {
      for (const std::size_t out : {1, 4, 7, 700}) {
        const Values x(DType::fp32, normal_values(in, 1)), weight(DType::fp32, normal_values(out * in, 2)),
            added(DType::fp32, normal_values(out, 3)), bias(DType::fp32, normal_values(out, 4));
        const Linear shape{.rows = 1, .in = static_cast<std::int64_t>(in), .out = static_cast<std::int64_t>(out)};
        const Exact exact(1, in, out, x.widened(), weight.widened(), std::vector<double>(out));
        std::vector<float> y(out + 1, 7), one_thread(out);
        linear({.threads = 2}, shape, x.data(), weight.data(), y.data(), {.addend = added.data(), .bias = bias.data()});
        for (std::size_t i = 0; i < out; ++i) {
          EXPECT_NEAR(y[i], exact.y[i] + added[i] + bias[i], 1e-5 * std::sqrt(static_cast<double>(in))) << i;
        }
        EXPECT_EQ(y[out], 7) << "written past the end";
        linear({.threads = 1}, shape, x.data(), weight.data(), one_thread.data(),
               {.addend = added.data(), .bias = bias.data()});
        EXPECT_TRUE(std::equal(one_thread.begin(), one_thread.end(), y.begin()))
            << "bits depend on the number of threads";
      }
    }
  }
}

// The SIMD panels compute this case instead of OpenBLAS, because x has at most 512 rows. No size is a multiple of a
// block: `in` of the packed depth, `out` of a vector or a panel, `rows` of a row block.
TEST(Linear, PromptsInEveryTypeAndInstructionSet) {
  const std::size_t rows = 512, in = 1030, out = 517;
  for (const std::string& name : test::available_isas()) {
    const test::IsaScope isa(name);
    for (const DType dtype : kTypes) {
      const Values x(dtype, normal_values(rows * in, 1)), weight(dtype, normal_values(out * in, 2)),
          addend(dtype, normal_values(rows * out, 3));
      const Linear shape{.rows = rows, .in = in, .out = out, .dtype = dtype};
      Values y(dtype, rows * out), one_thread(dtype, rows * out);
      linear({.threads = 3}, shape, x.data(), weight.data(), y.data(), {.addend = addend.data()});
      linear({.threads = 1}, shape, x.data(), weight.data(), one_thread.data(), {.addend = addend.data()});
      EXPECT_TRUE(y == one_thread) << name << ": bits depend on the number of threads";
      const auto expect_exact = [&](std::size_t row, std::size_t column) {
        double exact = addend[row * out + column];
        for (std::size_t i = 0; i < in; ++i) exact += x[row * in + i] * weight[column * in + i];
        EXPECT_NEAR(y[row * out + column], exact, unit_of(dtype) * std::abs(exact) + 2e-4)
            << name << ", row " << row << ", column " << column;
      };
      for (std::size_t row = 0; row < rows; ++row) expect_exact(row, row);
      for (std::size_t column = 0; column < out; ++column) expect_exact(rows - 1, column);
    }
  }
}

TEST(Linear, GradientsByFiniteDifferences) {
  const std::size_t rows = 5, in = 7, out = 3;
  const Linear shape{.rows = rows, .in = in, .out = out};
  const std::vector<float> x = whole_values(rows * in, 1), weight = whole_values(out * in, 2),
                           bias = whole_values(out, 3), dy = whole_values(rows * out, 4);
  const auto loss = [&](const std::vector<float>& x, const std::vector<float>& weight, const std::vector<float>& bias) {
    std::vector<float> y(rows * out);
    linear({}, shape, x.data(), weight.data(), y.data(), {.bias = bias.data()});
    return dot(dy, y);
  };
  std::vector<float> dx(x.size()), dweight(weight.size()), dbias(bias.size());
  linear_backward_input({}, shape, dy.data(), weight.data(), dx.data(), Into::set);
  linear_backward_weight({}, shape, dy.data(), x.data(), dweight.data(), Into::set);
  column_sums({}, {.rows = rows, .columns = out}, dy.data(), dbias.data(), Into::set);
  expect_linear_gradient("x", x, dx, [&](const auto& at) { return loss(at, weight, bias); });
  expect_linear_gradient("weight", weight, dweight, [&](const auto& at) { return loss(x, at, bias); });
  expect_linear_gradient("bias", bias, dbias, [&](const auto& at) { return loss(x, weight, at); });
}

TEST(Linear, AddendMayBeTheOutputAndWeightGradientsAreOverwritten) {
  const float x[] = {1, 2}, weight[] = {3, 4}, addend[] = {100};  // one row; two inputs, one output
  float y[] = {7}, dweight[] = {9, 9};
  const Linear shape{.rows = 1, .in = 2, .out = 1};
  linear({}, shape, x, weight, y, {.addend = addend});
  EXPECT_EQ(y[0], 111);
  linear({}, shape, x, weight, y, {.addend = y});
  EXPECT_EQ(y[0], 122);
  const float dy[] = {2};
  linear_backward_weight({}, shape, dy, x, dweight, Into::set);
  EXPECT_EQ(dweight[0], 2);
  EXPECT_EQ(dweight[1], 4);
}

// With 3 rows OpenBLAS computes the matmul, with 19 rows the SIMD panels (if the instruction set has them).
TEST(Linear, BiasIsAddedToEveryRowAndRoundedOnce) {
  for (const std::size_t rows : {3u, 19u}) {
    const std::size_t in = 33, out = 12;
    for (const DType dtype : kTypes) {
      const Values x(dtype, normal_values(rows * in, 1)), weight(dtype, normal_values(out * in, 2)),
          bias(dtype, normal_values(out, 3)), addend(dtype, normal_values(rows * out, 4));
      const Linear shape{.rows = static_cast<std::int64_t>(rows), .in = in, .out = out, .dtype = dtype};
      const Exact exact(rows, in, out, x.widened(), weight.widened(), std::vector<double>(rows * out));
      for (const bool adds : {false, true}) {
        Values y(dtype, rows * out);
        linear({.threads = 2}, shape, x.data(), weight.data(), y.data(),
               {.addend = adds ? addend.data() : nullptr, .bias = bias.data()});
        for (std::size_t i = 0; i < y.size(); ++i) {
          const double expected = exact.y[i] + bias[i % out] + (adds ? addend[i] : 0);
          EXPECT_NEAR(y[i], expected, 0.75 * unit_of(dtype) * std::abs(expected) + 2e-5) << i;
        }
      }
    }
  }
}

TEST(ColumnSums, OverwriteOrAdd) {
  const float x[] = {1, 2, 10, 20, 100, 200};  // three rows of two columns
  float sums[] = {0.5f, 0.25f};
  column_sums({}, {.rows = 3, .columns = 2}, x, sums, Into::sum);
  EXPECT_EQ(sums[0], 111.5f);
  EXPECT_EQ(sums[1], 222.25f);
  column_sums({}, {.rows = 3, .columns = 2}, x, sums, Into::set);
  EXPECT_EQ(sums[0], 111);
  EXPECT_EQ(sums[1], 222);
}

TEST(ColumnSums, RowsAreAddedInOrderInEveryTypeWithAnyNumberOfThreads) {
  for (const auto& [rows, columns] : {std::pair(300, 131), std::pair(2, 20'011), std::pair(1, 5)}) {
    for (const DType dtype : kTypes) {
      const auto width = static_cast<std::size_t>(columns);
      const Values x(dtype, normal_values(static_cast<std::size_t>(rows) * width, 1));
      std::vector<float> one(width), three(width, 9), expected(width);
      for (std::size_t i = 0; i < x.size(); ++i) expected[i % width] += static_cast<float>(x[i]);
      const ColumnSums shape{.rows = rows, .columns = columns, .dtype = dtype};
      column_sums({.threads = 1}, shape, x.data(), one.data(), Into::sum);
      column_sums({.threads = 3}, shape, x.data(), three.data(), Into::set);
      EXPECT_EQ(one, expected);
      EXPECT_EQ(three, expected);
    }
  }
}

}  // namespace
}  // namespace strobe::ops
