// Tests operations that only GPT-2 needs: compares the GPU's results with the CPU's. gpu_ops_test.cpp and
// gpu_training_test.cpp test the other operations.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/activation.h"
#include "ops/embedding.h"
#include "ops/gpu_sizes.h"
#include "ops/gpu_tensors.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "support/gpu.h"

namespace strobe::ops {
namespace {

using GpuGpt2Ops = test::GpuTest;

// One of the sizes has rows of one element, whose variance is 0. A large eps hides the rounding error of the variance.
TEST_F(GpuGpt2Ops, LayerNorm) {
  const Gpu gpu;
  for (const DType dtype : kTypes) {
    for (const auto& [rows, width, skip] : kSizes) {
      SCOPED_TRACE(testing::Message() << name_of(dtype) << ' ' << rows << " x " << width);
      const auto count = static_cast<std::size_t>(rows * width), columns = static_cast<std::size_t>(width);
      const ops::LayerNorm norm{.rows = rows, .width = width, .eps = 0.01f, .dtype = dtype};
      const Values x(dtype, normal_values(count, 1)), dy(dtype, normal_values(count, 2));
      const std::vector<float> weight = floats(columns, 3), bias = floats(columns, 6);
      Values y(dtype, count), y_gpu = y;
      std::vector<float> statistics(static_cast<std::size_t>(2 * rows)), statistics_gpu = statistics;
      layer_norm({}, norm,
                 {.x = x.data(),
                  .weight = weight.data(),
                  .bias = bias.data(),
                  .y = y.data(),
                  .statistics = statistics.data()});
      const OnGpu gx(gpu, x, skip), gdy(gpu, dy, skip), gweight(gpu, weight, skip), gbias(gpu, bias, skip),
          gy(gpu, y_gpu, skip), gstatistics(gpu, statistics_gpu);
      layer_norm(gpu.execution(), norm,
                 {.x = gx.data(),
                  .weight = gweight.as<float>(),
                  .bias = gbias.as<float>(),
                  .y = gy.data(),
                  .statistics = gstatistics.as<float>()});
      gy.read(y_gpu);
      gstatistics.read(statistics_gpu);
      expect_close("y", y_gpu, y, 2);
      expect_close("statistics", statistics_gpu, statistics, 1);
      for (const Into into : {Into::set, Into::sum}) {
        Values dx(dtype, normal_values(count, 4)), dx_gpu = dx;
        std::vector<float> dweight = floats(columns, 5), dweight_gpu = dweight, dbias = dweight, dbias_gpu = dweight;
        const OnGpu gdx(gpu, dx_gpu, skip), gdweight(gpu, dweight_gpu), gdbias(gpu, dbias_gpu);
        LayerNormGradients tensors{.x = x.data(),
                                   .weight = weight.data(),
                                   .statistics = statistics.data(),
                                   .dy = dy.data(),
                                   .dx = dx.data(),
                                   .dx_into = into,
                                   .dweight = dweight.data(),
                                   .dbias = dbias.data(),
                                   .parameters_into = into};
        layer_norm_backward({}, norm, tensors);
        tensors = {.x = gx.data(),
                   .weight = gweight.as<float>(),
                   .statistics = gstatistics.as<float>(),
                   .dy = gdy.data(),
                   .dx = gdx.data(),
                   .dx_into = into,
                   .dweight = gdweight.as<float>(),
                   .dbias = gdbias.as<float>(),
                   .parameters_into = into};
        layer_norm_backward(gpu.execution(), norm, tensors);
        gdx.read(dx_gpu);
        gdweight.read(dweight_gpu);
        gdbias.read(dbias_gpu);
        expect_close("dx", dx_gpu, dx, 4);
        expect_close("dweight", dweight_gpu, dweight, 25);
        expect_close("dbias", dbias_gpu, dbias, 25);
      }
    }
  }
}

TEST_F(GpuGpt2Ops, Gelu) {
  const Gpu gpu;
  for (const DType dtype : kTypes) {
    for (const auto& [rows, width, skip] : sizes_with_many_rows()) {
      const ops::Gelu shape{rows, width, dtype};
      const auto count = static_cast<std::size_t>(rows * width);
      Values x(dtype, normal_values(count, 1)), y(dtype, count), x_gpu = x, y_gpu = y;
      const Values dy(dtype, normal_values(count, 2));
      const OnGpu gx(gpu, x, skip), gy(gpu, y, skip), gdy(gpu, dy, skip);
      gelu({}, shape, x.data(), y.data());
      gelu_backward({}, shape, x.data(), dy.data(), x.data());
      gelu(gpu.execution(), shape, gx.data(), gy.data());
      gelu_backward(gpu.execution(), shape, gx.data(), gdy.data(), gx.data());
      gy.read(y_gpu);
      gx.read(x_gpu);
      expect_close("y", y_gpu, y, 2);
      expect_close("dx", x_gpu, x, 2);
    }
  }
}

TEST_F(GpuGpt2Ops, GeluOfLargeArgumentsStaysFinite) {
  const Gpu gpu;
  const OnGpu x(gpu, std::vector<float>{-1e30f, -20, 20, 1e30f}), dy(gpu, std::vector<float>(4, 1)),
      y(gpu, std::vector<float>(4)), dx(gpu, std::vector<float>(4));
  gelu(gpu.execution(), {.rows = 1, .width = 4}, x.data(), y.data());
  gelu_backward(gpu.execution(), {.rows = 1, .width = 4}, x.data(), dy.data(), dx.data());
  std::vector<float> found(4);
  y.read(found);
  EXPECT_EQ(found, (std::vector<float>{0, found[1], 20, 1e30f}));
  EXPECT_NEAR(found[1], 0, 1e-30);
  dx.read(found);
  EXPECT_EQ(found, (std::vector<float>{0, found[1], 1, 1}));
}

// Covers rows that are split over many blocks, columns that occupy all blocks, and tensors that are aligned to one
// element only. The second workspace is too small for partial sums, so one block computes each sum.
TEST_F(GpuGpt2Ops, ColumnSums) {
  for (const std::size_t workspace : {kWorkspaceBytes, std::size_t{256}}) {
    const Gpu gpu(true, false, workspace);
    for (const DType dtype : kTypes) {
      for (const auto& [rows, columns, skip] : {Size{1, 1, 0}, Size{5000, 24, 0}, Size{2048, 1536, 0}, Size{37, 131, 0},
                                                Size{3, 200'000, 0}, Size{700, 64, 1}}) {
        SCOPED_TRACE(testing::Message() << name_of(dtype) << ' ' << rows << " x " << columns);
        const ops::ColumnSums shape{rows, columns, dtype};
        const Values x(dtype, normal_values(static_cast<std::size_t>(rows * columns), 1));
        const OnGpu gx(gpu, x, skip);
        for (const Into into : {Into::set, Into::sum}) {
          std::vector<float> sums = floats(static_cast<std::size_t>(columns), 2), found = sums, again = sums;
          const OnGpu gsums(gpu, sums), gagain(gpu, sums);
          column_sums({}, shape, x.data(), sums.data(), into);
          column_sums(gpu.execution(), shape, gx.data(), gsums.as<float>(), into);
          column_sums(gpu.execution(), shape, gx.data(), gagain.as<float>(), into);
          gsums.read(found);
          gagain.read(again);
          expect_close("sums", found, sums, 50);
          EXPECT_EQ(found, again);
        }
      }
    }
  }
}

TEST_F(GpuGpt2Ops, Positions) {
  const Gpu gpu;
  for (const DType dtype : kTypes) {
    for (const auto& [tokens, width, skip] : {Size{1, 5, 0}, Size{70, 24, 0}, Size{30, 131, 0}, Size{12, 768, 1}}) {
      const std::int64_t vocabulary = 50, context = 11;
      const ops::Embedding shape{tokens, vocabulary, width, dtype};
      std::vector<std::int32_t> token(static_cast<std::size_t>(tokens));
      for (std::size_t t = 0; t < token.size(); ++t) token[t] = static_cast<std::int32_t>(t * t * 7 % 41);
      const std::vector<float> table = floats(static_cast<std::size_t>(vocabulary * width), 1),
                               positions = floats(static_cast<std::size_t>(context * width), 2);
      Values y(dtype, static_cast<std::size_t>(tokens * width)), y_gpu = y;
      const OnGpu gtoken(gpu, token), gtable(gpu, table), gpositions(gpu, positions, skip), gy(gpu, y);
      embedding({}, shape, token.data(), table.data(), y.data(), {.table = positions.data(), .context = context});
      embedding(gpu.execution(), shape, gtoken.as<std::int32_t>(), gtable.as<float>(), gy.data(),
                {.table = gpositions.as<float>(), .context = context});
      gy.read(y_gpu);
      EXPECT_TRUE(y == y_gpu) << name_of(dtype) << ' ' << tokens << " x " << width;
    }
  }
}

}  // namespace
}  // namespace strobe::ops
