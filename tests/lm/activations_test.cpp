#include "lm/activations.h"

#include <gtest/gtest.h>

namespace strobe::lm {
namespace {

TEST(Activations, ThePlanHasNoOverlapsAndNoGaps) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    const ActivationPlan plan = activation_plan(shape_of("tiny"), 3, dtype);
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

}  // namespace
}  // namespace strobe::lm
