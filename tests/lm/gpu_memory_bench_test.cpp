// Memory of a step on the GPU: what the driver says it gave away, against the timeline.
#include <gtest/gtest.h>

#include "lm/memory_bench.h"
#include "support/gpu.h"

namespace strobe::lm {
namespace {

using GpuMemoryBench = test::GpuTest;

TEST_F(GpuMemoryBench, ThePeakIsWithinThreePercentOfTheDriver) {
  BenchCase one{.shape = shape_of("small"), .precision = Precision::bf16, .place = {.device = Device::cuda}};
  const MemoryFigures figures = measure_memory(one);
  EXPECT_EQ(figures.timeline.peak(), figures.counted);
  EXPECT_EQ(figures.predicted, figures.counted);
  ASSERT_TRUE(figures.driver.has_value());
  EXPECT_NEAR(static_cast<double>(figures.counted) / static_cast<double>(*figures.driver), 1, 0.03);
}

// fp32: with a workspace of which a part is attention's alone.
TEST_F(GpuMemoryBench, EveryAllocationLastsToAnOperation) {
  const BenchCase one{.shape = shape_of("medium"), .place = {.device = Device::cuda}};
  const MemoryTimeline timeline = measure_memory(one).timeline;
  bool is_shared = false;
  for (const Life& life : timeline.allocations) {
    EXPECT_GE(life.to, 0) << life.name;
    is_shared |= life.name == "workspace of attention";
  }
  EXPECT_TRUE(is_shared);
}

}  // namespace
}  // namespace strobe::lm
