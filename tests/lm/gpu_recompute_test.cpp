// Activations that the backward makes again on a GPU, where a step is a graph: the same bits as where they are kept.
#include <gtest/gtest.h>

#include "lm/memory/timeline.h"
#include "lm/recomputed.h"
#include "support/gpu.h"

namespace strobe::lm {
namespace {

using GpuRecompute = test::GpuTest;

TEST_F(GpuRecompute, FiveStepsHaveTheSameBits) {
  for (const char* const kernel : {"", "standard"}) {
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
      expect_same_bits({.device = Device::cuda}, dtype, kernel);
    }
  }
}

TEST_F(GpuRecompute, PredictedIsWhatIsHeld) {
  for (const Architecture architecture : kArchitectures) {
    BenchCase one{
        .shape = as(architecture, kRecomputedShape), .precision = Precision::bf16, .place = {.device = Device::cuda}};
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
