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

}  // namespace
}  // namespace strobe::lm
