// Compares operations on the GPU with the CPU in all dtypes; gpu_gpt2_ops_test.cpp and gpu_training_test.cpp test the
// others. Covers sizes that are not multiples of a vector, a single row, rows that just fit in shared memory, longer
// rows, and tensors that are aligned to one element only.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/cross_entropy.h"
#include "ops/differences.h"
#include "ops/embedding.h"
#include "ops/gpu_sizes.h"
#include "ops/gpu_tensors.h"
#include "ops/norm.h"
#include "ops/rope.h"
#include "support/gpu.h"

namespace strobe::ops {
namespace {

using GpuOps = test::GpuTest;

void expect_rms_norm(const Gpu& gpu, DType dtype, const Size& size) {
  const auto& [rows, width, skip] = size;
  SCOPED_TRACE(testing::Message() << name_of(dtype) << ' ' << rows << " x " << width);
  const auto count = static_cast<std::size_t>(rows * width);
  const ops::RmsNorm norm{.rows = rows, .width = width, .dtype = dtype};
  const Values x(dtype, normal_values(count, 1)), dy(dtype, normal_values(count, 2));
  const std::vector<float> weight = floats(static_cast<std::size_t>(width), 3);
  Values y(dtype, count), y_gpu = y;
  std::vector<float> inverse(static_cast<std::size_t>(rows)), inverse_gpu = inverse;
  rms_norm({}, norm, x.data(), weight.data(), y.data(), inverse.data());
  const OnGpu gx(gpu, x, skip), gdy(gpu, dy, skip), gweight(gpu, weight, skip), gy(gpu, y_gpu, skip),
      ginverse(gpu, inverse_gpu);
  rms_norm(gpu.execution(), norm, gx.data(), gweight.as<float>(), gy.data(), ginverse.as<float>());
  gy.read(y_gpu);
  ginverse.read(inverse_gpu);
  expect_close("y", y_gpu, y, 2);
  expect_close("inverse", inverse_gpu, inverse, 1);
  for (const Into into : {Into::set, Into::sum}) {
    Values dx(dtype, normal_values(count, 4)), dx_gpu = dx;
    std::vector<float> dweight = floats(static_cast<std::size_t>(width), 5), dweight_gpu = dweight;
    const OnGpu gdx(gpu, dx_gpu, skip), gdweight(gpu, dweight_gpu);
    RmsNormGradients tensors{.x = x.data(),
                             .weight = weight.data(),
                             .inverse = inverse.data(),
                             .dy = dy.data(),
                             .dx = dx.data(),
                             .dx_into = into,
                             .dweight = dweight.data(),
                             .dweight_into = into};
    rms_norm_backward({}, norm, tensors);
    tensors = {.x = gx.data(),
               .weight = gweight.as<float>(),
               .inverse = ginverse.as<float>(),
               .dy = gdy.data(),
               .dx = gdx.data(),
               .dx_into = into,
               .dweight = gdweight.as<float>(),
               .dweight_into = into};
    rms_norm_backward(gpu.execution(), norm, tensors);
    gdx.read(dx_gpu);
    gdweight.read(dweight_gpu);
    expect_close("dx", dx_gpu, dx, 4);
    expect_close("dweight", dweight_gpu, dweight, 25);
  }
}

TEST_F(GpuOps, RmsNorm) {
  const Gpu gpu;
  for (const DType dtype : kTypes) {
    for (const Size& size : kSizes) expect_rms_norm(gpu, dtype, size);
  }
}

// The workspace has room for the sums of only two blocks, so each block of the backward processes several rows.
TEST_F(GpuOps, RmsNormWithTwoBlocks) {
  for (const Size& size : {Size{37, 1600, 0}, Size{35, 1608, 0}, Size{9, 131, 0}, Size{17, 64, 1}, Size{5, 13000, 0}}) {
    const Gpu gpu(true, false, static_cast<std::size_t>(2 * size.width) * sizeof(float));
    for (const DType dtype : kTypes) expect_rms_norm(gpu, dtype, size);
  }
}

TEST_F(GpuOps, RmsNormOfNoRows) {
  const Gpu gpu;
  std::vector<float> dweight(64, 3.0f);
  const OnGpu gdweight(gpu, dweight);
  rms_norm(gpu.execution(), {.rows = 0, .width = 64}, nullptr, nullptr, nullptr, nullptr);
  rms_norm_backward(gpu.execution(), {.rows = 0, .width = 64},
                    {.dweight = gdweight.as<float>(), .dweight_into = Into::set});
  gdweight.read(dweight);
  EXPECT_EQ(dweight, std::vector<float>(64, 0.0f));
}

void expect_attention(const Gpu& gpu, const MaterialisedAttention& shape) {
  SCOPED_TRACE(testing::Message() << name_of(shape.dtype) << " context " << shape.context << " head_dim "
                                  << shape.head_dim);
  const auto count = static_cast<std::size_t>(shape.batch * shape.context * shape.heads * shape.head_dim),
             scores = static_cast<std::size_t>(shape.batch * shape.heads * shape.context * shape.context);
  const DType dtype = shape.dtype;
  const Values qkv(dtype, normal_values(3 * count, 1)), d_o(dtype, normal_values(count, 2));
  Values p(dtype, scores), o(dtype, count), d_scores(dtype, scores), d_qkv(dtype, 3 * count);
  attention({.threads = 2}, shape, qkv.data(), p.data(), o.data());
  Values p_gpu(dtype, scores), o_gpu(dtype, count), d_qkv_gpu(dtype, 3 * count);
  const OnGpu gqkv(gpu, qkv), gd_o(gpu, d_o), gp(gpu, p_gpu), go(gpu, o_gpu), gd_scores(gpu, d_scores),
      gd_qkv(gpu, d_qkv);
  attention(gpu.execution(), shape, gqkv.data(), gp.data(), go.data());
  gp.read(p_gpu);
  go.read(o_gpu);
  expect_close("probabilities", p_gpu, p, 4);
  expect_close("o", o_gpu, o, 4);
  attention_backward({.threads = 2}, shape,
                     {.qkv = qkv.data(),
                      .probabilities = p.data(),
                      .d_o = d_o.data(),
                      .d_scores = d_scores.data(),
                      .d_qkv = d_qkv.data()});
  attention_backward(gpu.execution(), shape,
                     {.qkv = gqkv.data(),
                      .probabilities = gp.data(),
                      .d_o = gd_o.data(),
                      .d_scores = gd_scores.data(),
                      .d_qkv = gd_qkv.data()});
  gd_qkv.read(d_qkv_gpu);
  expect_close("d_qkv", d_qkv_gpu, d_qkv, 16);
}

// Covers contexts that are not multiples of a vector, heads that are aligned to two elements only, and a single row.
TEST_F(GpuOps, Attention) {
  for (const bool deterministic : {true, false}) {
    const Gpu gpu(deterministic);
    for (const DType dtype : kTypes) {
      for (const std::int64_t context : {1, 3, 70, 256, 1100}) {
        for (const std::int64_t head_dim : {6, 64, 80}) {
          const std::int64_t heads = head_dim == 80 ? 1 : 3;
          expect_attention(gpu, {.batch = 2, .heads = heads, .context = context, .head_dim = head_dim, .dtype = dtype});
        }
      }
    }
  }
}

TEST_F(GpuOps, Rope) {
  const Gpu gpu;
  for (const DType dtype : kTypes) {
    for (const std::int64_t head_dim : {2, 6, 64, 80}) {
      for (const bool in_wider_rows : {false, true}) {
        // One case has more tokens than a grid has blocks in y (at most 65,535).
        const std::int64_t heads = 4, tokens = head_dim == 2 ? 70'000 : 37, context = 19;
        const std::int64_t stride = in_wider_rows ? 6 * head_dim : 0;
        const auto count = static_cast<std::size_t>(tokens * (in_wider_rows ? 6 : 4) * head_dim);
        const ops::Rope shape{tokens, heads, head_dim, context, 2, stride, dtype};
        const std::vector<float> table = rope_table(context + 2, head_dim);
        const OnGpu gtable(gpu, table);
        for (const Rotation rotation : {Rotation::forward, Rotation::back}) {
          Values x(dtype, normal_values(count, 1)), x_gpu = x;
          const OnGpu gx(gpu, x_gpu);
          rope({}, shape, table.data(), x.data(), rotation);
          rope(gpu.execution(), shape, gtable.as<float>(), gx.data(), rotation);
          gx.read(x_gpu);
          expect_close("x", x_gpu, x, 2);
        }
      }
    }
  }
}

TEST_F(GpuOps, Swiglu) {
  const Gpu gpu;
  for (const DType dtype : kTypes) {
    for (const auto& [rows, width, skip] : sizes_with_many_rows()) {
      const ops::Swiglu shape{rows, width, dtype};
      const auto count = static_cast<std::size_t>(rows * width);
      Values ab(dtype, normal_values(2 * count, 1)), y(dtype, count), ab_gpu = ab, y_gpu = y;
      const Values dy(dtype, normal_values(count, 2));
      const OnGpu gab(gpu, ab, skip), gy(gpu, y, skip), gdy(gpu, dy, skip);
      swiglu({}, shape, ab.data(), y.data());
      swiglu_backward({}, shape, ab.data(), dy.data(), ab.data());
      swiglu(gpu.execution(), shape, gab.data(), gy.data());
      swiglu_backward(gpu.execution(), shape, gab.data(), gdy.data(), gab.data());
      gy.read(y_gpu);
      gab.read(ab_gpu);
      expect_close("y", y_gpu, y, 2);
      expect_close("dab", ab_gpu, ab, 2);
    }
  }
}

TEST_F(GpuOps, SwigluOfLargeArgumentsStaysFinite) {
  const Gpu gpu;
  const OnGpu ab(gpu, std::vector<float>{-200, 200, 0, -90, 1, 1, 5, 1e30f}), y(gpu, std::vector<float>(4));
  swiglu(gpu.execution(), {.rows = 1, .width = 4}, ab.data(), y.data());
  std::vector<float> found(4);
  y.read(found);
  EXPECT_EQ(found[0], 0);
  EXPECT_EQ(found[1], 200);
  EXPECT_EQ(found[2], 0);
  EXPECT_TRUE(std::isfinite(found[3]));
}

TEST_F(GpuOps, Embedding) {
  for (const bool deterministic : {true, false}) {
    const Gpu gpu(deterministic);
    for (const DType dtype : kTypes) {
      for (const auto& [tokens, width, skip] :
           {Size{1, 5, 0}, Size{700, 24, 0}, Size{300, 131, 0}, Size{130, 768, 1}}) {
        const std::int64_t vocabulary = 50;
        const ops::Embedding shape{tokens, vocabulary, width, dtype};
        std::vector<std::int32_t> token(static_cast<std::size_t>(tokens));
        for (std::size_t t = 0; t < token.size(); ++t) token[t] = static_cast<std::int32_t>(t * t * 7 % 41);
        const auto count = static_cast<std::size_t>(tokens * width);
        const std::vector<float> table = floats(static_cast<std::size_t>(vocabulary * width), 1);
        const Values dy(dtype, normal_values(count, 2));
        Values y(dtype, count), y_gpu = y;
        const OnGpu gtoken(gpu, token), gtable(gpu, table), gy(gpu, y, skip), gdy(gpu, dy, skip);
        embedding({}, shape, token.data(), table.data(), y.data());
        embedding(gpu.execution(), shape, gtoken.as<std::int32_t>(), gtable.as<float>(), gy.data());
        gy.read(y_gpu);
        EXPECT_TRUE(y == y_gpu);
        for (const Into into : {Into::set, Into::sum}) {
          std::vector<float> sums = table, sums_gpu = table;
          const OnGpu gsums(gpu, sums_gpu);
          embedding_backward({}, shape, token.data(), dy.data(), sums.data(), into);
          embedding_backward(gpu.execution(), shape, gtoken.as<std::int32_t>(), gdy.data(), gsums.as<float>(), into);
          gsums.read(sums_gpu);
          if (deterministic) {
            EXPECT_EQ(sums, sums_gpu) << "the same additions in the same order";
          } else {
            expect_close("dtable", sums_gpu, sums, 4);
          }
        }
      }
    }
  }
}

TEST_F(GpuOps, CrossEntropy) {
  const Gpu gpu;
  for (const DType dtype : kTypes) {
    for (const auto& [rows, vocabulary, skip] :
         {Size{1, 1, 0}, Size{5, 37, 0}, Size{9, 10000, 0}, Size{2, 12032, 0}, Size{3, 50257, 0}, Size{2, 64, 1}}) {
      SCOPED_TRACE(testing::Message() << name_of(dtype) << ' ' << rows << " x " << vocabulary);
      const auto count = static_cast<std::size_t>(rows * vocabulary);
      std::vector<std::int32_t> target(static_cast<std::size_t>(rows));
      for (std::size_t r = 0; r < target.size(); ++r) {
        target[r] = static_cast<std::int32_t>((r * 977 + 5) % static_cast<std::size_t>(vocabulary));
      }
      // Scales the gradients to about 1. In 16-bit types the tolerance would hide errors of smaller gradients.
      const auto scale = static_cast<float>(vocabulary);
      const OnGpu gscale(gpu, std::vector<float>{scale});
      ops::CrossEntropy shape{rows, vocabulary, dtype, static_cast<float>(rows), &scale};
      Values logits(dtype, normal_values(count, 1)), logits_gpu = logits;
      std::vector<float> losses(static_cast<std::size_t>(rows)), losses_gpu = losses, plain = losses;
      const OnGpu glogits(gpu, logits, skip), gtarget(gpu, target), glosses(gpu, losses);
      cross_entropy_with_gradient({}, shape, logits.data(), target.data(), losses.data());
      shape.loss_scale = gscale.as<float>();
      cross_entropy(gpu.execution(), shape, glogits.data(), gtarget.as<std::int32_t>(), glosses.as<float>());
      glosses.read(plain);
      cross_entropy_with_gradient(gpu.execution(), shape, glogits.data(), gtarget.as<std::int32_t>(),
                                  glosses.as<float>());
      glosses.read(losses_gpu);
      glogits.read(logits_gpu);
      EXPECT_EQ(plain, losses_gpu);
      expect_close("losses", losses_gpu, losses, 2);
      expect_close("dlogits", logits_gpu, logits, 4);
    }
  }
}

}  // namespace
}  // namespace strobe::ops
