#include "lm/activations.h"

#include <gtest/gtest.h>

namespace strobe::lm {
namespace {

TEST(Activations, ThePlanHasNoOverlapsAndNoGaps) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    const ActivationPlan plan = activation_plan(shape_of("tiny"), 3, dtype, Keeps::all);
    std::size_t next = 0;
    for (const Activation& one : plan.table) {
      EXPECT_EQ(one.first, next) << one.name;
      EXPECT_EQ(one.first % 64, 0u);
      next = (one.first + one.bytes() + 63) / 64 * 64;
    }
    EXPECT_EQ(plan.bytes, next);
    EXPECT_EQ(plan.blocks.size(), 4u);
    EXPECT_NE(plan.blocks[0].q, plan.blocks[1].q);
  }
}

TEST(Activations, WithoutABackwardBlocksShareTheirs) {
  const ModelShape shape = shape_of("tiny");
  const ActivationPlan all = activation_plan(shape, 1, DType::fp32, Keeps::all),
                       few = activation_plan(shape, 1, DType::fp32, Keeps::nothing);
  EXPECT_EQ(few.blocks[0].q, few.blocks[3].q);
  EXPECT_EQ(few.blocks[0].x, few.x);
  EXPECT_LT(few.bytes, all.bytes / 2);
}

}  // namespace
}  // namespace strobe::lm
