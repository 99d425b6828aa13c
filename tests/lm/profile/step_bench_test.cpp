// Tests the benchmark of a training step: times, FLOPs, skipped fp16 steps, and steps that do not fit in memory.
#include "lm/profile/step_bench.h"

#include <gtest/gtest.h>

#include <cmath>

#include "device/gpu_allocator.h"
#include "device/host/allocator.h"
#include "strobe/error.h"
#include "support/gpu.h"

namespace strobe::lm {
namespace {

// The expected counts are computed by hand for d 4, d_ff 8, 1 layer, vocabulary 10 and 3 tokens.
TEST(StepBench, CountsFlopsOfMatmuls) {
  BenchCase one{.shape = {.d_model = 4, .d_ff = 8, .layers = 1, .heads = 1, .vocabulary = 10, .context = 3},
                .batch = 1,
                .pass = BenchPass::forward};
  const double multiplied = 4 * 16 + 3 * 4 * 8 + 10 * 4, scores = 2 * 3 * 4;
  EXPECT_EQ(flops_of(one), 3 * (2 * multiplied + scores));
  one.pass = BenchPass::step;
  EXPECT_EQ(flops_of(one), 9 * (2 * multiplied + scores));
  one.shape.architecture = Architecture::gpt2;  // biases and positions add no matmuls
  EXPECT_EQ(flops_of(one), 9 * (2 * (multiplied - 4 * 8) + scores));
}

void expect_every_phase(const BenchCase& one) {
  const BenchTimes times = time_step(one);
  EXPECT_EQ(times.whole.seconds.n, 3u);
  for (const auto* phase : {&times.forward, &times.backward, &times.update}) {
    ASSERT_TRUE(phase->has_value());
    EXPECT_EQ((*phase)->seconds.n, 3u);
    EXPECT_GT((*phase)->seconds.mean, 0);
  }
  EXPECT_NEAR(times.loss, std::log(11.0), 1.5);
}

BenchCase small_case(Precision precision, double clip, Device device) {
  return {.shape = {.d_model = 16, .d_ff = 24, .layers = 2, .heads = 2, .vocabulary = 11, .context = 5},
          .batch = 2,
          .precision = precision,
          .warmup = 0,
          .steps = 3,
          .clip = clip,
          .execution = {.device = device}};
}

TEST(StepBench, TimesEveryPhase) {
  for (const double clip : {0.0, 1.0}) expect_every_phase(small_case(Precision::bf16, clip, Device::cpu));
}

TEST(StepBench, ReportsEveryPass) {
  for (const BenchPass pass : {BenchPass::forward, BenchPass::forward_backward, BenchPass::step}) {
    BenchCase one = small_case(Precision::fp32, 0, Device::cpu);
    one.warmup = 2;
    one.pass = pass;
    std::int64_t passes = 0;
    time_step(one, [&](double seconds) { passes += seconds > 0 ? 1 : 0; });
    EXPECT_EQ(passes, pass == BenchPass::forward ? 5 : 10);
    EXPECT_EQ(passes, passes_of(one));
  }
}

// With a single token, the gradient of its logit times the initial loss scale of 65536 exceeds fp16. Only the first
// step overflows.
BenchCase overflowing_case(int warmup, Device device) {
  return {.shape = {.d_model = 16, .d_ff = 24, .layers = 1, .heads = 2, .vocabulary = 20'000, .context = 1},
          .batch = 1,
          .precision = Precision::fp16,
          .warmup = warmup,
          .steps = 1,
          .execution = {.device = device}};
}

void expect_skipped_steps(Device device) {
  const BenchTimes times = time_step(overflowing_case(0, device));
  EXPECT_EQ(times.skipped, 1);
  EXPECT_EQ(times.skipped_updates, 0) << "phases are measured in a step that is not skipped";
  EXPECT_EQ(time_step(overflowing_case(1, device)).skipped, 0);
}

TEST(StepBench, CountsSkippedStepsOfFp16) { expect_skipped_steps(Device::cpu); }

TEST(StepBench, OnTheCpuReportsRequestedAndFreeBytesBeforeAllocating) {
  host_allocator().reset_peak();
  const std::size_t held = host_allocator().statistics().peak;
  try {
    time_step({.shape = shape_of("tiny"), .batch = 1 << 20});
    ADD_FAILURE() << "it fitted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory) << error.what();
    EXPECT_NE(std::string(error.what()).find("cannot allocate"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("are free"), std::string::npos) << error.what();
  }
  EXPECT_EQ(host_allocator().statistics().peak, held);
}

class GpuStepBench : public test::GpuTest {};

TEST_F(GpuStepBench, TimesEveryPhase) {
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16}) {
    for (const double clip : {0.0, 1.0}) expect_every_phase(small_case(precision, clip, Device::cuda));
  }
}

TEST_F(GpuStepBench, CountsSkippedStepsOfFp16) { expect_skipped_steps(Device::cuda); }

// No GPU can hold these activations, so `strobe lm bench` reports `oom`. The allocations before the failure must be
// freed.
TEST_F(GpuStepBench, ReportsRequestedAndFreeBytesIfMemoryIsExhausted) {
  const std::size_t held = gpu_allocator().statistics().current;
  try {
    time_step({.shape = shape_of("tiny"),
               .batch = 1 << 20,
               .precision = Precision::bf16,
               .execution = {.device = Device::cuda}});
    ADD_FAILURE() << "it fitted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory) << error.what();
    EXPECT_NE(std::string(error.what()).find("cannot allocate"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("are free"), std::string::npos) << error.what();
  }
  EXPECT_EQ(gpu_allocator().statistics().current, held);
  expect_every_phase(small_case(Precision::bf16, 0, Device::cuda));
}

}  // namespace
}  // namespace strobe::lm
