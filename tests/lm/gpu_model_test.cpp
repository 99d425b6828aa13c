// Tests the model on a GPU. Results equal those of the CPU within a tolerance. Repeated runs and replayed CUDA graphs
// have the bits of the first run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "lm/cases.h"
#include "lm/memory/timeline.h"
#include "lm/model.h"
#include "lm/recomputed.h"
#include "support/gpu.h"

namespace strobe::lm {
namespace {

using GpuModel = test::GpuTest;

constexpr ModelShape kGpuShape{.d_model = 128, .d_ff = 320, .layers = 3, .heads = 2, .vocabulary = 101, .context = 70};
constexpr std::int64_t kGpuBatch = 3;

std::vector<double> losses_of(Model& model, int steps, double clip = 1) {
  std::vector<double> losses;
  for (int step = 1; step <= steps; ++step) {
    const Text text(kGpuShape, kGpuBatch, static_cast<unsigned>(step));
    losses.push_back(model.step(text.tokens.data(), text.targets.data(), {.adamw = {.step = step}, .clip = clip}).loss);
  }
  return losses;
}

std::vector<float> values_of(const Model& model) {
  std::vector<float> values(static_cast<std::size_t>(parameter_count(model.shape())));
  model.read_state(State::values, values);
  return values;
}

TEST_F(GpuModel, StepsAsOnTheCpuInEveryType) {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    Model cpu(kGpuShape, kGpuBatch, dtype, {.threads = 2}), gpu(kGpuShape, kGpuBatch, dtype, {.device = Device::cuda});
    cpu.begin(5);
    gpu.begin(5);
    EXPECT_EQ(values_of(cpu), values_of(gpu));
    const std::vector<double> expected = losses_of(cpu, 6), found = losses_of(gpu, 6);
    const double tolerance = dtype == DType::fp32 ? 1e-4 : dtype == DType::fp16 ? 2e-3 : 1e-2;
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i] / expected[i], 1, tolerance) << name_of(dtype) << " step " << i;
    }
  }
}

// With `standard` attention the backward reads the probabilities that the forward saved, also in a CUDA graph. Losses
// must equal those with flash2 within a tolerance.
TEST_F(GpuModel, StandardAttentionStepsAsFlash2) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    Model fused(kGpuShape, kGpuBatch, dtype, {.device = Device::cuda}),
        standard(kGpuShape, kGpuBatch, dtype, {.device = Device::cuda}, {.attention = "standard"});
    fused.begin(5);
    standard.begin(5);
    const std::vector<double> expected = losses_of(fused, 6), found = losses_of(standard, 6);
    const double tolerance = dtype == DType::fp32 ? 1e-4 : 1e-2;
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i] / expected[i], 1, tolerance) << name_of(dtype) << " step " << i;
    }
  }
}

// The forward-only model updates the residual stream in place. cuBLASLt then rounds 16-bit sums differently.
TEST_F(GpuModel, AForwardOnlyModelHasTheSameLoss) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const char* const kernel : {"", "standard"}) {
      const ops::ExecutionContext execution{.device = Device::cuda};
      Model whole(kGpuShape, kGpuBatch, dtype, execution, {.attention = kernel});
      Model forward(kGpuShape, kGpuBatch, dtype, execution, {.attention = kernel, .gradients = GradientMemory::none});
      whole.begin(5);
      forward.begin(5);
      for (unsigned seed = 1; seed <= 3; ++seed) {  // launched directly, captured, replayed
        const Text text(kGpuShape, kGpuBatch, seed);
        const double expected = whole.loss(text.tokens.data(), text.targets.data());
        EXPECT_NEAR(forward.loss(text.tokens.data(), text.targets.data()), expected,
                    dtype == DType::fp32 ? 0 : 1e-3 * expected)
            << name_of(dtype) << ' ' << kernel << " seed " << seed;
      }
    }
  }
}

TEST_F(GpuModel, TwoRunsHaveTheSameBits) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const GradientMemory memory : {GradientMemory::own, GradientMemory::shared}) {
      const ModelOptions options{.gradients = memory};
      Model one(kGpuShape, kGpuBatch, dtype, {.device = Device::cuda}, options);
      Model two(kGpuShape, kGpuBatch, dtype, {.device = Device::cuda}, options);
      one.begin(5);
      two.begin(5);
      EXPECT_EQ(losses_of(one, 6), losses_of(two, 6));
      EXPECT_EQ(values_of(one), values_of(two));
    }
  }
}

// The first step of a model runs without a graph, the second captures one, the third replays it.
TEST_F(GpuModel, AReplayedGraphEqualsTheFirstStep) {
  Model model(kGpuShape, kGpuBatch, DType::bf16, {.device = Device::cuda});
  model.begin(5);
  const std::vector<double> first = losses_of(model, 1);
  const std::vector<float> values = values_of(model);
  for (int again = 0; again < 3; ++again) {
    model.begin(5);
    EXPECT_EQ(losses_of(model, 1), first);
    EXPECT_EQ(values_of(model), values);
  }
}

// Without clipping, the graph overlaps parameter updates with the backward. With direct launches the update follows the
// backward. Matrices of the shape `odd` are not aligned to four elements.
TEST_F(GpuModel, OverlappedUpdatesHaveTheSameBits) {
  ModelShape gpt2 = kGpuShape, odd{.d_model = 30, .d_ff = 10, .layers = 2, .heads = 5, .vocabulary = 7, .context = 3};
  gpt2.architecture = odd.architecture = Architecture::gpt2;
  for (const ModelShape& shape : {kGpuShape, gpt2, odd}) {
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
      for (const Recompute recompute : {Recompute::none, Recompute::attention, Recompute::block}) {
        const auto state_after_steps = [&](Launches launches, bool needs_norm,
                                           GradientMemory gradients = GradientMemory::shared) {
          Model model(shape, kGpuBatch, dtype, {.device = Device::cuda},
                      {.gradients = gradients, .recompute = recompute});
          model.set_launches(launches);
          model.begin(5);
          model.set_loss_scale({.scale = 0x1p30});  // the first steps of fp16 overflow at this scale
          std::vector<float> state(3 * static_cast<std::size_t>(parameter_count(shape)) + 1);
          double norm = 0;
          for (int step = 1; step <= 16; ++step) {
            const Text text(shape, kGpuBatch, static_cast<unsigned>(step));
            norm =
                model.step(text.tokens.data(), text.targets.data(), {.adamw = {.step = step}, .needs_norm = needs_norm})
                    .gradient_norm;
          }
          const std::size_t count = state.size() / 3;
          model.read_state(State::values, std::span(state).first(count));
          model.read_state(State::mean, std::span(state).subspan(count, count));
          model.read_state(State::variance, std::span(state).subspan(2 * count, count));
          state.back() = needs_norm ? static_cast<float>(norm) : 0;
          return state;
        };
        for (const bool needs_norm : {false, true}) {
          const std::vector<float> state = state_after_steps(Launches::direct, needs_norm);
          const std::string what = fmt::format("{} of width {}, {}, recompute {}", name_of(shape.architecture),
                                               shape.d_model, name_of(dtype), name_of(recompute));
          EXPECT_EQ(state, state_after_steps(Launches::replayed, needs_norm)) << what;
          if (dtype == DType::fp32) continue;
          EXPECT_EQ(state, state_after_steps(Launches::replayed, needs_norm, GradientMemory::over_copies)) << what;
        }
      }
    }
  }
}

TEST_F(GpuModel, OverfitsABatchInEveryPrecision) {
  const Text text(kGpuShape, kGpuBatch, 4);
  for (const bool tf32 : {false, true}) {
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
      for (const bool deterministic : {true, false}) {
        Model model(kGpuShape, kGpuBatch, dtype, {.device = Device::cuda, .deterministic = deterministic, .tf32 = tf32},
                    {.gradients = GradientMemory::shared});
        model.begin(7);
        StepResult last;
        for (int step = 1; step <= 80; ++step) {
          last = model.step(
              text.tokens.data(), text.targets.data(),
              {.adamw = {.rate = 3e-3, .step = step}, .clip = deterministic ? 1.0 : 0.0, .needs_norm = deterministic});
        }
        EXPECT_LT(last.loss, 1) << name_of(dtype);
        EXPECT_LT(last.skipped_in_all, 10);
        EXPECT_EQ(std::isnan(last.gradient_norm), !deterministic && dtype != DType::fp16);
      }
    }
  }
}

// Every gradient overflows at this scale: no parameter is updated, and the scale is halved until no gradient overflows.
TEST_F(GpuModel, StepsThatOverflowAreSkippedAndCounted) {
  const Text text(kGpuShape, kGpuBatch, 4);
  Model model(kGpuShape, kGpuBatch, DType::fp16, {.device = Device::cuda});
  model.begin(7);
  model.set_loss_scale({.scale = 0x1p40});
  const std::vector<float> before = values_of(model);
  const auto step = [&] { return model.step(text.tokens.data(), text.targets.data(), {}); };
  StepResult result = step();
  EXPECT_TRUE(result.skipped);
  EXPECT_EQ(result.skipped_in_all, 1);
  EXPECT_EQ(model.loss_scale().scale, 0x1p39);
  EXPECT_EQ(values_of(model), before);
  for (int more = 0; more < 40 && result.skipped; ++more) result = step();
  EXPECT_FALSE(result.skipped);
  EXPECT_NE(values_of(model), before);
  EXPECT_TRUE(std::isfinite(result.gradient_norm));
}

// Forward, backward and update, run separately, give the bits of a whole step. The clipping limit 1e6 is never reached.
TEST_F(GpuModel, PhasesAddUpToAStep) {
  const Text text(kGpuShape, kGpuBatch, 3);
  for (const double clip : {0.0, 1e6}) {
    Model whole(kGpuShape, kGpuBatch, DType::bf16, {.device = Device::cuda});
    Model parts(kGpuShape, kGpuBatch, DType::bf16, {.device = Device::cuda});
    const StepOptions options{.adamw = {.step = 1}, .clip = clip, .needs_norm = false};
    for (Model* const model : {&whole, &parts}) {
      model->begin(1);
      model->step(text.tokens.data(), text.targets.data(), options);
    }
    for (int again = 0; again < 3; ++again) {
      whole.step(text.tokens.data(), text.targets.data(), options);
      for (const Phase phase : {Phase::forward, Phase::backward, Phase::update}) parts.run_phase(phase);
    }
    EXPECT_EQ(values_of(whole), values_of(parts));
  }
}

using GpuRecompute = test::GpuTest;

TEST_F(GpuRecompute, FiveStepsHaveTheSameBits) {
  for (const char* const kernel : {"", "standard"}) {
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
      expect_same_bits({.device = Device::cuda}, dtype, kernel);
    }
  }
}

TEST_F(GpuRecompute, PredictedMemoryIsAllocated) {
  for (const Architecture architecture : kArchitectures) {
    BenchCase one{.shape = as(architecture, kRecomputedShape),
                  .precision = Precision::bf16,
                  .execution = {.device = Device::cuda}};
    for (const Recompute recompute : {Recompute::none, Recompute::attention, Recompute::block}) {
      one.recompute = recompute;
      const MemoryFigures figures = measure_memory(one);
      EXPECT_EQ(figures.timeline.peak(), figures.counted) << name_of(recompute);
      EXPECT_EQ(figures.predicted, figures.counted) << name_of(recompute);
    }
  }
}

}  // namespace
}  // namespace strobe::lm
