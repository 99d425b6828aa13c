// Tests `strobe lm train --verify`, which compares ranks with one process: its error bounds, and the gradients of its
// toy model.
#include "lm/data_parallel/verify.h"

#include <gtest/gtest.h>

#include <limits>

#include "lm/data_parallel/toy_mlp.h"

namespace strobe::lm {
namespace {

TEST(Verification, PassesOnlyWithinItsBounds) {
  const VerifyBounds fp32 = verify_bounds(Precision::fp32);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_TRUE((Verification{.model = "", .bounds = fp32, .losses = 1e-5, .weights = 1e-5}.holds()));
  EXPECT_FALSE((Verification{.model = "", .bounds = fp32, .losses = 1.1e-5}.holds()));
  EXPECT_FALSE((Verification{.model = "", .bounds = fp32, .weights = 1.1e-5}.holds()));
  EXPECT_FALSE((Verification{.model = "", .bounds = fp32, .losses = kInfinity}.holds()));
  EXPECT_FALSE((Verification{.model = "", .bounds = fp32, .other_ranks = 1}.holds()));
  EXPECT_FALSE((Verification{.model = "", .bounds = fp32, .unsharded = "flat", .from_unsharded = 1e-9}.holds()));
  EXPECT_TRUE((Verification{.model = "", .bounds = fp32, .from_unsharded = 1e-9, .most_from_unsharded = 1e-6}.holds()));
  for (const Precision precision : {Precision::tf32, Precision::bf16, Precision::fp16}) {
    const VerifyBounds low = verify_bounds(precision);
    EXPECT_TRUE((Verification{.model = "", .bounds = low, .losses = 2e-3, .weights = 1}.holds()));
    EXPECT_FALSE((Verification{.model = "", .bounds = low, .losses = 2.1e-3}.holds()));
    EXPECT_FALSE((Verification{.model = "", .bounds = low, .unsharded = "flat", .from_unsharded = 1e-9}.holds()));
  }
}

// Checks every parameter by finite differences.
TEST(ToyMlp, GradientsAreCorrect) {
  ToyMlp toy;
  std::vector<std::size_t> order;
  toy.loss_with_gradients(3, 5, [&](std::size_t tensor) { order.push_back(tensor); });
  EXPECT_EQ(order, (std::vector<std::size_t>{3, 2, 1, 0}));
  const std::vector<float> gradients(toy.gradients().begin(), toy.gradients().end());
  constexpr float kStep = 1e-3f;
  double most = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto loss_at = [&](float shift) {
      const float kept = toy.values()[i];
      toy.values()[i] = kept + shift;
      const double loss = toy.loss_with_gradients(3, 5, [](std::size_t) {});
      toy.values()[i] = kept;
      return loss;
    };
    EXPECT_NEAR((loss_at(kStep) - loss_at(-kStep)) / (2 * kStep), gradients[i], 5e-4) << i;
    most = std::max(most, std::abs(static_cast<double>(gradients[i])));
  }
  EXPECT_GT(most, 0.05);
}

// A gradient must not change after it was reported, because its exchange may have started.
TEST(ToyMlp, ReportsFinalGradients) {
  ToyMlp toy;
  std::vector<float> reported(toy.gradients().size());
  toy.loss_with_gradients(0, 4, [&](std::size_t tensor) {
    const Tensor range = ToyMlp::tensors()[tensor];
    std::copy_n(toy.gradients().begin() + range.first, range.count, reported.begin() + range.first);
  });
  EXPECT_TRUE(std::equal(reported.begin(), reported.end(), toy.gradients().begin()));
}

}  // namespace
}  // namespace strobe::lm
