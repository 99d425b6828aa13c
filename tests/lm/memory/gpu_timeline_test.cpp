// Tests the memory of a training step on the GPU: the timeline of allocations, compared with the driver's memory.
#include <gtest/gtest.h>

#include "lm/memory/timeline.h"
#include "lm/plan/device_memory.h"
#include "support/gpu.h"

namespace strobe::lm {
namespace {

using GpuMemoryBench = test::GpuTest;

TEST_F(GpuMemoryBench, ThePeakIsWithinThreePercentOfTheDriver) {
  BenchCase one{.shape = shape_of("small"), .precision = Precision::bf16, .execution = {.device = Device::cuda}};
  const MemoryFigures figures = measure_memory(one);
  EXPECT_EQ(figures.timeline.peak(), figures.counted);
  EXPECT_EQ(figures.predicted, figures.counted);
  ASSERT_TRUE(figures.driver.has_value());
  EXPECT_NEAR(static_cast<double>(figures.counted) / static_cast<double>(*figures.driver), 1, 0.03);
}

// Tests both passes with fused and materialised attention. The prediction is within 5 % of the memory that the driver
// reports, and a forward pass needs less than half of a step's memory.
TEST_F(GpuMemoryBench, AForwardNeedsLessThanHalfOfAStep) {
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    for (const char* const kernel : {"", "standard"}) {
      BenchCase one{.shape = shape_of("small"),
                    .batch = 1,
                    .precision = precision,
                    .attention = kernel,
                    .execution = {.device = Device::cuda}};
      one.shape.context = 128;
      std::size_t step = 0;
      for (const BenchPass pass : {BenchPass::step, BenchPass::forward}) {
        SCOPED_TRACE(testing::Message() << name_of(precision) << ' ' << kernel);
        one.pass = pass;
        const MemoryFigures figures = measure_memory(one);
        EXPECT_EQ(figures.predicted, figures.counted);
        EXPECT_EQ(figures.timeline.peak(), figures.counted);
        ASSERT_TRUE(figures.driver.has_value());
        EXPECT_NEAR(static_cast<double>(figures.counted) / static_cast<double>(*figures.driver), 1, 0.05);
        if (pass == BenchPass::step) step = figures.counted;
      }
      const auto weights =
          static_cast<std::size_t>(parameter_count(one.shape)) * (precision == Precision::bf16 ? 6 : sizeof(float));
      const std::size_t forward = predicted_bytes(one);
      EXPECT_GT(forward, weights);
      EXPECT_LT(forward, weights + (std::size_t{64} << 20))
          << "besides weights: a workspace of 32 MiB and the activations of one layer";
      EXPECT_LT(forward, step / 2);
    }
  }
}

// In fp32, attention needs more workspace than matmuls. The timeline shows the excess as "workspace of attention".
TEST_F(GpuMemoryBench, EveryAllocationLastsUntilAnOperation) {
  const BenchCase one{.shape = shape_of("medium"), .execution = {.device = Device::cuda}};
  const MemoryTimeline timeline = measure_memory(one).timeline;
  bool has_workspace = false;
  for (const Lifetime& lifetime : timeline.allocations) {
    EXPECT_GE(lifetime.to, 0) << lifetime.name;
    has_workspace |= lifetime.name == "workspace of attention";
  }
  EXPECT_TRUE(has_workspace);
}

}  // namespace
}  // namespace strobe::lm
