// Compares the GEMMs of linear layers, and the optimizer, on the GPU with those on the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "ops/differences.h"
#include "ops/gpu_tensors.h"
#include "ops/linear.h"
#include "ops/optimizer.h"
#include "support/gpu.h"

namespace strobe::ops {
namespace {

using GpuTraining = test::GpuTest;

// Returns the norm of the difference divided by the norm of the expected values.
double distance(const std::vector<double>& found, const std::vector<double>& expected) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(difference / size);
}

// If output and addend are the same tensor, cuBLASLt rounds 16-bit sums differently.
TEST_F(GpuTraining, TheAddendMayBeTheOutput) {
  const Gpu gpu;
  for (const DType dtype : kTypes) {
    for (const Linear& size : {Linear{210, 128, 128}, Linear{210, 320, 128}, Linear{256, 768, 768}}) {
      SCOPED_TRACE(testing::Message() << name_of(dtype) << ' ' << size.rows << ' ' << size.in << ' ' << size.out);
      const Linear shape{size.rows, size.in, size.out, dtype};
      const Values x(dtype, normal_values(static_cast<std::size_t>(shape.rows * shape.in), 1)),
          weight(dtype, normal_values(static_cast<std::size_t>(shape.out * shape.in), 2)),
          addend(dtype, normal_values(static_cast<std::size_t>(shape.rows * shape.out), 3));
      const OnGpu gx(gpu, x), gweight(gpu, weight), gaddend(gpu, addend), apart(gpu, addend), in_place(gpu, addend);
      linear(gpu.execution(), shape, gx.data(), gweight.data(), apart.data(), {.addend = gaddend.data()});
      linear(gpu.execution(), shape, gx.data(), gweight.data(), in_place.data(), {.addend = in_place.data()});
      Values expected(dtype, addend.size()), found(dtype, addend.size());
      apart.read(expected);
      in_place.read(found);
      EXPECT_LE(distance(found.widened(), expected.widened()), dtype == DType::fp32 ? 0 : unit_of(dtype));
    }
  }
}

TEST_F(GpuTraining, AllThreeMatmulsOfALinearLayer) {
  for (const auto& [deterministic, tf32] :
       {std::pair(true, false), std::pair(true, true), std::pair(false, false), std::pair(false, true)}) {
    const Gpu gpu(deterministic, tf32);
    for (const DType dtype : kTypes) {
      for (const Linear& size : {Linear{19, 33, 12}, Linear{1, 64, 64}, Linear{256, 768, 2304}, Linear{34, 32, 37}}) {
        SCOPED_TRACE(testing::Message() << name_of(dtype) << ' ' << size.rows << ' ' << size.in << ' ' << size.out);
        const Linear shape{size.rows, size.in, size.out, dtype};
        const auto of = [](std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); };
        const Values x(dtype, normal_values(of(shape.rows, shape.in), 1)),
            weight(dtype, normal_values(of(shape.out, shape.in), 2)),
            dy(dtype, normal_values(of(shape.rows, shape.out), 3)),
            addend(dtype, normal_values(of(shape.rows, shape.out), 4)), bias(dtype, normal_values(of(1, shape.out), 5));
        const OnGpu gx(gpu, x), gweight(gpu, weight), gdy(gpu, dy), gaddend(gpu, addend), gbias(gpu, bias);
        const double allowed = dtype != DType::fp32 ? 2 * unit_of(dtype) : tf32 ? 2e-3 : 4e-6;
        for (const Into into : {Into::set, Into::sum}) {
          Values y(dtype, dy.size()), dx = x;
          std::vector<float> dweight(weight.size(), 0.5f);
          const OnGpu gy(gpu, y), gdx(gpu, dx), gdweight(gpu, dweight);
          const bool adds = into == Into::sum;
          linear({}, shape, x.data(), weight.data(), y.data(), {.addend = adds ? addend.data() : nullptr});
          linear_backward_input({}, shape, dy.data(), weight.data(), dx.data(), into);
          linear_backward_weight({}, shape, dy.data(), x.data(), dweight.data(), into);
          linear(gpu.execution(), shape, gx.data(), gweight.data(), gy.data(),
                 {.addend = adds ? gaddend.data() : nullptr});
          linear_backward_input(gpu.execution(), shape, gdy.data(), gweight.data(), gdx.data(), into);
          linear_backward_weight(gpu.execution(), shape, gdy.data(), gx.data(), gdweight.as<float>(), into);
          Values y_gpu(dtype, y.size()), dx_gpu(dtype, dx.size());
          std::vector<float> dweight_gpu(dweight.size());
          gy.read(y_gpu);
          gdx.read(dx_gpu);
          gdweight.read(dweight_gpu);
          const auto wide = [](const std::vector<float>& v) { return std::vector<double>(v.begin(), v.end()); };
          EXPECT_LE(distance(y_gpu.widened(), y.widened()), allowed);
          EXPECT_LE(distance(dx_gpu.widened(), dx.widened()), allowed);
          EXPECT_LE(distance(wide(dweight_gpu), wide(dweight)), tf32 && dtype == DType::fp32 ? 2e-3 : 1e-5);
          linear({}, shape, x.data(), weight.data(), y.data(),
                 {.addend = adds ? addend.data() : nullptr, .bias = bias.data()});
          linear(gpu.execution(), shape, gx.data(), gweight.data(), gy.data(),
                 {.addend = adds ? gaddend.data() : nullptr, .bias = gbias.data()});
          gy.read(y_gpu);
          EXPECT_LE(distance(y_gpu.widened(), y.widened()), allowed) << "with a bias";
        }
      }
    }
  }
}

// Without `deterministic`, matmuls time several cuBLASLt plans and use the fastest. All sums are integers that every
// dtype represents exactly, so every plan must give the same bits.
TEST_F(GpuTraining, TheFastestTilesHaveTheSameSums) {
  const Gpu timed(false), plain(true);
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    SCOPED_TRACE(name_of(dtype));
    const Linear shape{2080, 656, 1600, dtype};
    const auto signs = [&](std::int64_t rows, std::int64_t cols, unsigned seed) {
      std::vector<double> values = normal_values(static_cast<std::size_t>(rows * cols), seed);
      for (double& value : values) value = value > 1.5 ? 1 : value < -1.5 ? -1 : 0;
      return Values(dtype, values);
    };
    const Values x = signs(shape.rows, shape.in, 1), weight = signs(shape.out, shape.in, 2),
                 dy = signs(shape.rows, shape.out, 3);
    const auto matmuls = [&](const Gpu& gpu) {
      const OnGpu gx(gpu, x), gweight(gpu, weight), gdy(gpu, dy), gy(gpu, dy), gdx(gpu, x),
          gdweight(gpu, std::vector<float>(weight.size()));
      linear(gpu.execution(), shape, gx.data(), gweight.data(), gy.data(), {.addend = gdy.data()});
      linear_backward_input(gpu.execution(), shape, gdy.data(), gweight.data(), gdx.data(), Into::set);
      linear_backward_weight(gpu.execution(), shape, gdy.data(), gx.data(), gdweight.as<float>(), Into::set);
      Values y(dtype, dy.size()), dx(dtype, x.size());
      std::vector<float> dweight(weight.size());
      gy.read(y);
      gdx.read(dx);
      gdweight.read(dweight);
      return std::tuple(y.widened(), dx.widened(), dweight);
    };
    EXPECT_TRUE(matmuls(timed) == matmuls(plain));
  }
}

// In TF32 the operands of a large weight gradient are transposed first if they fit in the workspace.
TEST_F(GpuTraining, WeightGradientsInTf32WithAndWithoutTransposition) {
  const Linear shape{100, 1300, 1204};
  const auto count = static_cast<std::size_t>(shape.in * shape.out);
  const Values x(DType::fp32, normal_values(static_cast<std::size_t>(shape.rows * shape.in), 1)),
      dy(DType::fp32, normal_values(static_cast<std::size_t>(shape.rows * shape.out), 2));
  std::vector<float> expected(count, 0.5f);
  linear_backward_weight({}, shape, dy.data(), x.data(), expected.data(), Into::sum);
  const std::size_t bytes = linear_backward_workspace_bytes({.device = Device::cuda, .tf32 = true}, shape);
  ASSERT_GT(bytes, kWorkspaceBytes);
  for (const std::size_t workspace : {kWorkspaceBytes, bytes - 1, bytes}) {
    const Gpu gpu(true, true, workspace);
    const OnGpu gx(gpu, x), gdy(gpu, dy), gdweight(gpu, std::vector<float>(count, 0.5f));
    linear_backward_weight(gpu.execution(), shape, gdy.data(), gx.data(), gdweight.as<float>(), Into::sum);
    std::vector<float> found(count);
    gdweight.read(found);
    EXPECT_LE(distance({found.begin(), found.end()}, {expected.begin(), expected.end()}), 2e-3) << workspace;
  }
}

// Plans of matmuls are cached. A call with another bias must not use the bias of a cached plan.
TEST_F(GpuTraining, EveryMatmulUsesItsOwnBias) {
  const Gpu gpu;
  const Linear shape{16, 16, 16};
  const std::vector<float> zeros(256);
  const OnGpu nothing(gpu, zeros), y(gpu, zeros);
  for (const std::size_t skip : {0u, 0u, 1u}) {
    for (const float value : {1.0f, 2.0f}) {
      const OnGpu bias(gpu, std::vector<float>(16, value), skip);
      linear(gpu.execution(), shape, nothing.data(), nothing.data(), y.data(), {.bias = bias.data()});
      std::vector<float> found(256);
      y.read(found);
      EXPECT_EQ(found, std::vector<float>(256, value)) << skip;
    }
  }
}

TEST_F(GpuTraining, MatmulsRepeatBitByBit) {
  const Gpu gpu;
  const Linear shape{2048, 768, 3072, DType::bf16};
  const Values x(DType::bf16, normal_values(2048 * 768, 1)), dy(DType::bf16, normal_values(2048 * 3072, 2));
  const OnGpu gx(gpu, x), gdy(gpu, dy), gdweight(gpu, std::vector<float>(768 * 3072));
  std::vector<float> first(768 * 3072), again = first;
  linear_backward_weight(gpu.execution(), shape, gdy.data(), gx.data(), gdweight.as<float>(), Into::set);
  gdweight.read(first);
  for (int run = 0; run < 5; ++run) {
    linear_backward_weight(gpu.execution(), shape, gdy.data(), gx.data(), gdweight.as<float>(), Into::set);
    gdweight.read(again);
    EXPECT_EQ(first, again);
  }
}

TEST_F(GpuTraining, AdamW) {
  const Gpu gpu;
  for (const std::size_t count : {1u, 3u, 40'001u}) {
    for (const std::size_t skip : {0u, 1u}) {
      for (const DType dtype : kTypes) {
        const auto floats = [&](unsigned seed, double scale) {
          std::vector<float> values;
          for (const double value : normal_values(count, seed)) values.push_back(static_cast<float>(scale * value));
          return values;
        };
        std::vector<float> value = floats(1, 1), gradient = floats(2, 3), mean = floats(3, 0.1), variance(count, 0.5f);
        Values copy(dtype, count);
        const OnGpu gvalue(gpu, value, skip), ggradient(gpu, gradient, skip), gmean(gpu, mean, skip),
            gvariance(gpu, variance, skip), gcopy(gpu, copy, skip);
        const bool copies = dtype != DType::fp32;
        const Trained on_cpu{
            static_cast<std::int64_t>(count), value.data(), gradient.data(), mean.data(), variance.data(),
            copies ? copy.data() : nullptr,   dtype};
        const Trained on_gpu{static_cast<std::int64_t>(count),
                             gvalue.as<float>(),
                             ggradient.as<float>(),
                             gmean.as<float>(),
                             gvariance.as<float>(),
                             copies ? gcopy.data() : nullptr,
                             dtype};
        const AdamW options{.rate = 1e-2, .step = 3, .gradient_scale = 0.5};
        adamw({}, options, {&on_cpu, 1});
        adamw(gpu.execution(), options, {&on_gpu, 1});
        std::vector<float> found(count);
        gvalue.read(found);
        for (std::size_t i = 0; i < count; ++i) ASSERT_NEAR(found[i], value[i], 1e-6) << i;
        if (copies) {
          Values rounded(dtype, count);
          gcopy.read(rounded);
          for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(rounded[i], round_to(dtype, found[i])) << i;
          const OnGpu again(gpu, Values(dtype, count), skip);
          Trained only_copy = on_gpu;
          only_copy.copy = again.data();
          round_copies(gpu.execution(), {&only_copy, 1});
          Values copied(dtype, count);
          again.read(copied);
          EXPECT_TRUE(copied == rounded);
        }
        gmean.read(found);
        for (std::size_t i = 0; i < count; ++i) ASSERT_NEAR(found[i], mean[i], 1e-6) << i;
        gvariance.read(found);
        for (std::size_t i = 0; i < count; ++i) ASSERT_NEAR(found[i], variance[i], 1e-5) << i;
      }
    }
  }
}

TEST_F(GpuTraining, NormClippingAndSkippedSteps) {
  const Gpu gpu;
  const std::vector<float> a(50'003, 0.5f), b = {30, 40};
  const OnGpu ga(gpu, a), gb(gpu, b, 1);
  const Trained tensors[] = {{.count = 50'003, .gradient = ga.as<float>()}, {.count = 2, .gradient = gb.as<float>()}};
  const double expected = std::sqrt(50'003 * 0.25 + 2500);
  EXPECT_NEAR(gradient_norm(gpu.execution(), tensors), expected, 1e-9 * expected);
  EXPECT_NEAR(gradient_norm(gpu.execution(), tensors, 0.5), expected / 2, 1e-9 * expected);
  const auto limited = [&](Update update, std::span<const Trained> of) {
    std::vector<Update> found{update};
    const OnGpu update_on_gpu(gpu, found);
    limit_gradients(gpu.execution(), of, update_on_gpu.as<Update>());
    update_on_gpu.read(found);
    return found[0];
  };
  const Update cut = limited({.gradient_scale = 0.25f, .most = 1}, tensors);
  EXPECT_NEAR(cut.norm, expected / 4, 1e-6);
  EXPECT_NEAR(cut.gradient_scale, 1 / expected, 1e-8);
  EXPECT_EQ(cut.skip, 0);
  const OnGpu bad(gpu, std::vector<float>{1, std::numeric_limits<float>::infinity()});
  const Trained spoiled{.count = 2, .gradient = bad.as<float>()};
  EXPECT_EQ(limited({.most = 1}, {&spoiled, 1}).skip, 0);
  EXPECT_EQ(limited({.most = 1, .skip_infinite = 1}, {&spoiled, 1}).skip, 1);
}

}  // namespace
}  // namespace strobe::ops
