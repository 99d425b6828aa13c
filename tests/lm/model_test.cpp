// Tests losses, gradients and training steps of a model on the CPU.
#include "lm/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lm/cases.h"
#include "strobe/error.h"

namespace strobe::lm {
namespace {

ModelShape small_shape(Architecture architecture = Architecture::llama) {
  return {.d_model = 24,
          .d_ff = 40,
          .layers = 2,
          .heads = 3,
          .vocabulary = 19,
          .context = 11,
          .architecture = architecture};
}

// Moves each parameter along its gradient. The change of the loss must be the step times the gradient's squared norm.
// Changes of single elements would be lost in fp32 rounding. A bias of k does not change softmax: its gradient is 0.
void expect_gradients_by_differences(const ModelShape& shape) {
  const Text text(shape, 2, 1);
  Model model(shape, 2, DType::fp32, {.threads = 2});
  model.begin(3);
  for (std::size_t i = 0; i < model.values().size(); ++i) {  // makes every bias nonzero
    model.values()[i] += 0.1f * std::sin(static_cast<float>(i));
  }
  const double loss = model.loss_with_gradients(text.tokens.data(), text.targets.data());
  const std::vector<float> values(model.values().begin(), model.values().end());
  const std::vector<float> gradients(model.gradients().begin(), model.gradients().end());
  for (const Parameter& parameter : model.parameters()) {
    double squares = 0;
    for (std::int64_t i = 0; i < parameter.count(); ++i) {
      const double g = gradients[static_cast<std::size_t>(parameter.first + i)];
      squares += g * g;
    }
    if (parameter.name.ends_with("attention.k.bias")) {
      EXPECT_EQ(squares, 0) << parameter.name;
      std::copy(values.begin(), values.end(), model.values().begin());
      for (std::int64_t i = 0; i < parameter.count(); ++i) {
        model.values()[static_cast<std::size_t>(parameter.first + i)] += 0.5f;
      }
      EXPECT_NEAR(model.loss(text.tokens.data(), text.targets.data()), loss, 2e-6) << parameter.name;
      continue;
    }
    ASSERT_GT(squares, 1e-8) << parameter.name;
    const double step = 2e-3 / std::sqrt(squares);  // the parameter moves by 2e-3 in total
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

TEST(Model, GradientsMatchDifferencesAlongEachParameter) {
  for (const Architecture architecture : kArchitectures) expect_gradients_by_differences(small_shape(architecture));
}

// Only RoPE needs an even head dimension.
TEST(Model, Gpt2SupportsAnOddHeadDimension) {
  expect_gradients_by_differences({.d_model = 15,
                                   .d_ff = 21,
                                   .layers = 1,
                                   .heads = 3,
                                   .vocabulary = 19,
                                   .context = 11,
                                   .architecture = Architecture::gpt2});
}

TEST(Model, FirstLossIsNearThatOfUniformGuessing) {
  for (const Architecture architecture : kArchitectures) {
    const ModelShape shape = as(architecture, shape_of("tiny"));
    const Text text(shape, 1, 2);
    Model model(shape, 1, DType::fp32, {.threads = 2});
    model.begin(1);
    const double loss = model.loss(text.tokens.data(), text.targets.data());
    EXPECT_GT(loss, std::log(256.0) - 0.3);
    EXPECT_LT(loss, std::log(256.0) + 1.5);
  }
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

// Training repeatedly on one batch must reduce its loss in every dtype.
void expect_learning(const ModelShape& shape) {
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

TEST(Model, OverfitsABatch) {
  for (const Architecture architecture : kArchitectures) expect_learning(small_shape(architecture));
}

// Every gradient overflows at this scale: no parameter is updated, and the scale is halved until no gradient overflows.
TEST(Model, StepsThatOverflowAreSkippedAndCounted) {
  const ModelShape shape = small_shape();
  const Text text(shape, 2, 4);
  Model model(shape, 2, DType::fp16, {.threads = 2});
  model.begin(7);
  model.set_loss_scale({.scale = 0x1p40});
  const std::vector<float> before(model.values().begin(), model.values().end());
  const auto step = [&] { return model.step(text.tokens.data(), text.targets.data(), {}); };
  StepResult result = step();
  EXPECT_TRUE(result.skipped);
  EXPECT_TRUE(model.update_skipped());
  EXPECT_EQ(model.loss_scale().scale, 0x1p39);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), model.values().begin()));
  for (int more = 0; more < 40 && result.skipped; ++more) result = step();
  EXPECT_FALSE(result.skipped);
  EXPECT_FALSE(model.update_skipped());
  EXPECT_EQ(result.skipped_in_all, model.loss_scale().skipped);
  EXPECT_GT(result.skipped_in_all, 1);
  EXPECT_TRUE(std::isfinite(result.gradient_norm));
  EXPECT_FALSE(std::equal(before.begin(), before.end(), model.values().begin()));
}

void expect_shared_memory(const ModelShape& shape) {
  const Text text(shape, 2, 4);
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    Model own(shape, 2, dtype, {.threads = 2});
    Model shared(shape, 2, dtype, {.threads = 2}, {.gradients = GradientMemory::shared});
    Model over(shape, 2, dtype, {.threads = 2}, {.gradients = GradientMemory::over_copies});
    for (Model* const model : {&own, &shared, &over}) {
      model->begin(7);
      model->set_loss_scale({.scale = 0x1p30});  // the first steps of fp16 overflow at this scale
    }
    StepResult last;
    for (int step = 1; step <= 30; ++step) {
      const StepOptions options{.adamw = {.step = step}, .clip = step % 2 == 0 ? 1.0 : 0.0};
      last = own.step(text.tokens.data(), text.targets.data(), options);
      for (Model* const model : {&shared, &over}) {
        EXPECT_EQ(model->step(text.tokens.data(), text.targets.data(), options).loss, last.loss) << step;
      }
    }
    EXPECT_FALSE(last.skipped);
    EXPECT_EQ(last.skipped_in_all > 0, dtype == DType::fp16);
    const double loss = own.loss(text.tokens.data(), text.targets.data());
    for (Model* const model : {&shared, &over}) {
      EXPECT_TRUE(std::equal(own.values().begin(), own.values().end(), model->values().begin()));
      EXPECT_EQ(model->loss(text.tokens.data(), text.targets.data()), loss);
      EXPECT_THROW(model->loss_with_gradients(text.tokens.data(), text.targets.data()), Error);
    }
    EXPECT_THROW(over.loss_and_lone_gradients(text.tokens.data(), text.targets.data()), Error);
    EXPECT_THROW(over.clear_gradients(), Error);
    EXPECT_THROW(over.gradient_norm(), Error);
    EXPECT_THROW(over.gradients(), Error);
    EXPECT_THROW(over.update({}), Error);
    EXPECT_THROW(
        Model(shape, 2, dtype, {}, {.gradients = GradientMemory::over_copies, .optimizer = OptimizerMemory::outside}),
        Error);
  }
}

TEST(Model, SharedGradientMemoryChangesNoBitAndAllowsOnlyOneBatch) {
  for (const Architecture architecture : kArchitectures) expect_shared_memory(small_shape(architecture));
}

TEST(Model, ResumesFromItsState) {
  const ModelShape shape = small_shape();
  const Text text(shape, 1, 6);
  const auto step = [&](Model& model, int number) {
    return model.step(text.tokens.data(), text.targets.data(), {.adamw = {.step = number}, .clip = 1}).loss;
  };
  Model first(shape, 1, DType::bf16, {.threads = 1});
  Model second(shape, 1, DType::bf16, {.threads = 1}, {.gradients = GradientMemory::over_copies});
  first.begin(1);
  second.begin(2);
  step(first, 1);
  std::vector<float> state(static_cast<std::size_t>(parameter_count(shape)));
  const std::span<float> head = std::span(state).first(1001), tail = std::span(state).subspan(1001);
  for (const State which : {State::values, State::mean, State::variance}) {
    first.read_state(which, tail, 1001);
    first.read_state(which, head);
    second.write_state(which, tail, 1001);
    second.write_state(which, head);
  }
  for (int number : {2, 3}) EXPECT_EQ(step(first, number), step(second, number));
  EXPECT_THROW(first.read_state(State::mean, std::span(state).subspan(1), 2), Error) << "the range ends past the state";
  EXPECT_THROW(first.write_state(State::values, state, 1), Error);
}

TEST(Model, SameBitsForAnyNumberOfThreads) {
  for (const Architecture architecture : kArchitectures) {
    const ModelShape shape =
        as(architecture, {.d_model = 256, .d_ff = 300, .layers = 1, .heads = 4, .vocabulary = 50, .context = 70});
    const Text text(shape, 2, 5);
    Model one(shape, 2, DType::fp32, {.threads = 1}), three(shape, 2, DType::fp32, {.threads = 3});
    one.begin(9);
    three.begin(9);
    EXPECT_EQ(one.loss_with_gradients(text.tokens.data(), text.targets.data()),
              three.loss_with_gradients(text.tokens.data(), text.targets.data()));
    for (std::size_t i = 0; i < one.gradients().size(); ++i) ASSERT_EQ(one.gradients()[i], three.gradients()[i]) << i;
  }
}

TEST(Model, Tf32ChangesNothingOnACpu) {
  const ModelShape shape = small_shape();
  const Text text(shape, 1, 3);
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    Model plain(shape, 1, dtype, {}), tf32(shape, 1, dtype, {.tf32 = true});
    plain.begin(1);
    tf32.begin(1);
    EXPECT_EQ(plain.loss_with_gradients(text.tokens.data(), text.targets.data()),
              tf32.loss_with_gradients(text.tokens.data(), text.targets.data()));
  }
}

TEST(Model, RejectsTokensOutsideTheVocabularyAndBadBatches) {
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

// The backward must report each gradient once, from the last parameter to the first. A gradient must have its final
// value when it is reported.
void expect_final_gradients(const ModelShape& shape) {
  const Text text(shape, 2, 1);
  const ModelOptions cases[] = {{.gradients = GradientMemory::own},
                                {.gradients = GradientMemory::shared},
                                {.gradients = GradientMemory::shared, .recompute = Recompute::attention},
                                {.gradients = GradientMemory::shared, .recompute = Recompute::block}};
  for (const ModelOptions& options : cases) {
    Model model(shape, 2, DType::fp32, {.threads = 1}, options);
    model.begin(3);
    std::vector<std::size_t> reported;
    std::vector<float> then(model.gradients().size());
    model.on_gradient_ready([&](std::size_t index) {
      reported.push_back(index);
      const Parameter& parameter = model.parameters()[index];
      std::copy_n(model.gradients().begin() + parameter.first, parameter.count(), then.begin() + parameter.first);
    });
    model.loss_and_lone_gradients(text.tokens.data(), text.targets.data());
    ASSERT_EQ(reported.size(), model.parameters().size());
    for (std::size_t i = 0; i < reported.size(); ++i) EXPECT_EQ(reported[i], reported.size() - 1 - i);
    EXPECT_TRUE(std::equal(then.begin(), then.end(), model.gradients().begin()));
    model.on_gradient_ready({});
    model.loss_and_lone_gradients(text.tokens.data(), text.targets.data());
    EXPECT_EQ(reported.size(), model.parameters().size());
  }
}

TEST(Model, ReportsFinalGradients) {
  for (const Architecture architecture : kArchitectures) expect_final_gradients(small_shape(architecture));
}

// A forward-only model has another memory plan and must give the same loss.
TEST(Model, AForwardOnlyModelHasTheSameLoss) {
  for (const Architecture architecture : kArchitectures) {
    for (const DType dtype : {DType::fp32, DType::bf16}) {
      for (const char* const kernel : {"flash2", "standard"}) {
        const ModelShape shape = small_shape(architecture);
        Model whole(shape, 2, dtype, {.threads = 2}, {.attention = kernel});
        Model forward(shape, 2, dtype, {.threads = 2}, {.attention = kernel, .gradients = GradientMemory::none});
        whole.begin(3);
        forward.begin(3);
        for (unsigned seed = 1; seed < 3; ++seed) {
          const Text text(shape, 2, seed);
          EXPECT_EQ(forward.loss(text.tokens.data(), text.targets.data()),
                    whole.loss(text.tokens.data(), text.targets.data()));
        }
      }
    }
  }
}

TEST(Model, AForwardOnlyModelRejectsABackward) {
  const ModelShape shape = small_shape();
  const Text text(shape, 2, 1);
  Model model(shape, 2, DType::fp32, {}, {.gradients = GradientMemory::none});
  model.begin(3);
  const auto expect_refusal = [](const char* what, const std::function<void()>& call) {
    try {
      call();
      ADD_FAILURE() << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported) << what;
      EXPECT_NE(std::string(error.what()).find("the model has no gradients"), std::string::npos) << error.what();
    }
  };
  const auto *tokens = text.tokens.data(), *targets = text.targets.data();
  expect_refusal("loss_with_gradients", [&] { model.loss_with_gradients(tokens, targets); });
  expect_refusal("loss_and_lone_gradients", [&] { model.loss_and_lone_gradients(tokens, targets); });
  expect_refusal("step", [&] { model.step(tokens, targets, {}); });
  expect_refusal("gradient_norm", [&] { model.gradient_norm(); });
  expect_refusal("gradients", [&] { model.gradients(); });
  expect_refusal("run_phase", [&] { model.run_phase(Phase::backward); });
  std::vector<float> state(static_cast<std::size_t>(parameter_count(shape)));
  EXPECT_THROW(model.read_state(State::mean, state), Error) << "a forward-only model has no optimizer state";
  EXPECT_NO_THROW(model.read_state(State::values, state));
}

// `standard` attention saves the probabilities, flash2 recomputes them. The gradients must be equal up to rounding.
TEST(Model, StandardAttentionHasTheGradientsOfFlash2) {
  for (const Architecture architecture : kArchitectures) {
    const ModelShape shape = small_shape(architecture);
    const Text text(shape, 2, 1);
    std::vector<std::vector<float>> gradients;
    for (const char* const kernel : {"flash2", "standard"}) {
      Model model(shape, 2, DType::fp32, {.threads = 2}, {.attention = kernel});
      model.begin(3);
      model.loss_with_gradients(text.tokens.data(), text.targets.data());
      gradients.emplace_back(model.gradients().begin(), model.gradients().end());
    }
    for (std::size_t i = 0; i < gradients[0].size(); ++i) {
      EXPECT_NEAR(gradients[0][i], gradients[1][i], 1e-6) << name_of(architecture) << ' ' << i;
    }
  }
}

TEST(Model, WithoutOptimizerStateRejectsUpdates) {
  const ModelShape shape = small_shape();
  const Text text(shape, 1, 1);
  Model model(shape, 1, DType::fp32, {.threads = 1}, {.optimizer = OptimizerMemory::outside});
  model.begin(3);
  std::vector<float> state(model.values().size());
  model.read_state(State::values, state);
  EXPECT_THROW(model.read_state(State::mean, state), Error);
  EXPECT_THROW(model.write_state(State::variance, state), Error);
  EXPECT_THROW(model.update({}), Error);
  EXPECT_THROW(model.run_phase(Phase::update), Error);
  EXPECT_THROW(model.step(text.tokens.data(), text.targets.data(), {}), Error);
}

}  // namespace
}  // namespace strobe::lm
