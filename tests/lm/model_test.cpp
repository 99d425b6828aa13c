#include "lm/model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "strobe/error.h"

namespace strobe::lm {
namespace {

ModelShape small_shape() {
  return {.d_model = 24, .d_ff = 40, .layers = 2, .heads = 3, .vocabulary = 19, .context = 11};
}

struct Text {
  std::vector<std::int32_t> tokens, targets;
  Text(const ModelShape& shape, std::int64_t batch, unsigned seed) {
    std::mt19937 rng(seed);
    const auto draw = [&] { return static_cast<std::int32_t>(rng() % static_cast<unsigned>(shape.vocabulary)); };
    for (std::int64_t t = 0; t < batch * shape.context; ++t) {
      tokens.push_back(draw());
      targets.push_back(draw());
    }
  }
};

// Along the gradient itself the loss changes by its squared norm; element by element in fp32 the differences drown.
TEST(Model, GradientsByDifferencesAlongEachParameter) {
  const ModelShape shape = small_shape();
  const Text text(shape, 2, 1);
  Model model(shape, 2, DType::fp32, {.threads = 2});
  model.begin(3);
  model.loss_with_gradients(text.tokens.data(), text.targets.data());
  const std::vector<float> values(model.values().begin(), model.values().end());
  const std::vector<float> gradients(model.gradients().begin(), model.gradients().end());
  for (const Parameter& parameter : model.parameters()) {
    double squares = 0;
    for (std::int64_t i = 0; i < parameter.count(); ++i) {
      const double g = gradients[static_cast<std::size_t>(parameter.first + i)];
      squares += g * g;
    }
    ASSERT_GT(squares, 0) << parameter.name;
    const double step = 2e-3 / std::sqrt(squares);  // the parameter moves by 2e-3 in all
    const auto moved = [&](double by) {
      std::copy(values.begin(), values.end(), model.values().begin());
      for (std::int64_t i = 0; i < parameter.count(); ++i) {
        const auto at = static_cast<std::size_t>(parameter.first + i);
        model.values()[at] += static_cast<float>(by * gradients[at]);
      }
      return model.loss(text.tokens.data(), text.targets.data());
    };
    const double found = (moved(step) - moved(-step)) / (2 * step);
    EXPECT_NEAR(found / squares, 1, 0.02) << parameter.name;
  }
}

TEST(Model, FirstLossIsThatOfGuessing) {
  const ModelShape shape = shape_of("tiny");
  const Text text(shape, 1, 2);
  Model model(shape, 1, DType::fp32, {.threads = 2});
  model.begin(1);
  const double loss = model.loss(text.tokens.data(), text.targets.data());
  EXPECT_GT(loss, std::log(256.0) - 0.3);
  EXPECT_LT(loss, std::log(256.0) + 1.5);
}

TEST(Model, GradientsAddUpAndScale) {
  const ModelShape shape = small_shape();
  const Text text(shape, 1, 3);
  Model model(shape, 1, DType::fp32, {.threads = 1});
  model.begin(5);
  const double loss = model.loss_with_gradients(text.tokens.data(), text.targets.data());
  EXPECT_EQ(loss, model.loss(text.tokens.data(), text.targets.data())) << "the loss does not depend on the backward";
  const double once = model.gradient_norm();
  model.loss_with_gradients(text.tokens.data(), text.targets.data(), 3);
  EXPECT_NEAR(model.gradient_norm(), 4 * once, 1e-4 * once);
  model.clear_gradients();
  EXPECT_EQ(model.gradient_norm(), 0);
}

// One batch again and again is learnt by heart, in every type.
TEST(Model, LearnsABatchByHeart) {
  const ModelShape shape = small_shape();
  const Text text(shape, 2, 4);
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    const float scale = dtype == DType::fp16 ? 1024.0f : 1.0f;
    Model model(shape, 2, dtype, {.threads = 2});
    model.begin(7);
    const double before = model.loss(text.tokens.data(), text.targets.data());
    for (int step = 1; step <= 60; ++step) {
      model.clear_gradients();
      model.loss_with_gradients(text.tokens.data(), text.targets.data(), scale);
      const double clip = ops::clip_factor(model.gradient_norm(1 / scale), 1);
      model.update({.rate = 1e-2, .step = step, .gradient_scale = clip / scale});
    }
    const double after = model.loss(text.tokens.data(), text.targets.data());
    EXPECT_GT(before, 2.5) << name_of(dtype);
    EXPECT_LT(after, 0.5) << name_of(dtype);
  }
}

TEST(Model, SameBitsForAnyNumberOfThreads) {
  const ModelShape shape{.d_model = 256, .d_ff = 300, .layers = 1, .heads = 4, .vocabulary = 50, .context = 70};
  const Text text(shape, 2, 5);
  Model one(shape, 2, DType::fp32, {.threads = 1}), three(shape, 2, DType::fp32, {.threads = 3});
  one.begin(9);
  three.begin(9);
  EXPECT_EQ(one.loss_with_gradients(text.tokens.data(), text.targets.data()),
            three.loss_with_gradients(text.tokens.data(), text.targets.data()));
  for (std::size_t i = 0; i < one.gradients().size(); ++i) ASSERT_EQ(one.gradients()[i], three.gradients()[i]) << i;
}

TEST(Model, RefusesTokensOutsideTheVocabularyAndBadBatches) {
  const ModelShape shape = small_shape();
  Text text(shape, 1, 6);
  Model model(shape, 1, DType::fp32, {});
  model.begin(1);
  text.targets[4] = 19;
  EXPECT_THROW(model.loss(text.tokens.data(), text.targets.data()), Error);
  text.targets[4] = 18;
  text.tokens[10] = -1;
  EXPECT_THROW(model.loss_with_gradients(text.tokens.data(), text.targets.data()), Error);
  EXPECT_THROW(Model(shape, 0, DType::fp32, {}), Error);
  EXPECT_THROW(Model(shape, -1, DType::fp32, {}), Error);
}

}  // namespace
}  // namespace strobe::lm
