// Tests that recomputed activations have the same bits as saved ones.
#include "lm/models/choices.h"

#include <gtest/gtest.h>

#include "lm/recomputed.h"
#include "strobe/error.h"

namespace strobe::lm {
namespace {

TEST(Recompute, NamesAreThoseOfTheModes) {
  EXPECT_EQ(recompute_names(), (std::vector<std::string>{"none", "attention", "block"}));
  for (const std::string& name : recompute_names()) EXPECT_EQ(name_of(recompute_of(name)), name);
  EXPECT_THROW(recompute_of("all"), Error);
}

TEST(Recompute, FiveStepsHaveTheSameBits) {
  for (const char* const kernel : {"flash2", "standard"}) {
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) expect_same_bits({.threads = 2}, dtype, kernel);
  }
}

// The last block is not recomputed, so a model with one block recomputes nothing.
TEST(Recompute, OneLayerHasTheSameBits) {
  const ModelShape shape{.d_model = 24, .d_ff = 40, .layers = 1, .heads = 3, .vocabulary = 19, .context = 11};
  const Text text(shape, 2, 1);
  std::vector<float> kept;
  for (const Recompute recompute : {Recompute::none, Recompute::attention, Recompute::block}) {
    Model model(shape, 2, DType::fp32, {.threads = 1}, {.recompute = recompute});
    model.begin(3);
    model.loss_with_gradients(text.tokens.data(), text.targets.data());
    const std::vector<float> gradients(model.gradients().begin(), model.gradients().end());
    if (recompute == Recompute::none) kept = gradients;
    EXPECT_EQ(gradients, kept) << name_of(recompute);
  }
}

// Gradients accumulate over two batches. Recomputed activations reuse memory, in which the first batch leaves values
// that must have no effect.
TEST(Recompute, GradientsAddUp) {
  const ModelShape shape = kRecomputedShape;
  const Text first(shape, 2, 1), second(shape, 2, 2);
  std::vector<float> kept;
  for (const Recompute recompute : {Recompute::none, Recompute::attention, Recompute::block}) {
    Model model(shape, 2, DType::bf16, {.threads = 2}, {.recompute = recompute});
    model.begin(3);
    for (const Text* const text : {&first, &second}) {
      model.loss_with_gradients(text->tokens.data(), text->targets.data(), 0.5f);
    }
    const std::vector<float> gradients(model.gradients().begin(), model.gradients().end());
    if (recompute == Recompute::none) kept = gradients;
    EXPECT_EQ(gradients, kept) << name_of(recompute);
  }
}

}  // namespace
}  // namespace strobe::lm
