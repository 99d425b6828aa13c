// Compares 20 training steps with losses and gradient norms that tools/golden computed with PyTorch.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "lm/cases.h"
#include "lm/model.h"
#include "support/gpu.h"

namespace strobe::lm {
namespace {

constexpr ModelShape kShape{.d_model = 32, .d_ff = 88, .layers = 3, .heads = 4, .vocabulary = 37, .context = 17};
constexpr std::int64_t kBatch = 2;
constexpr double kRate = 1e-3, kClip = 1.0;

// Initializes the parameters as begin() of the script tools/golden does.
void begin(Model& model) {
  std::vector<float> values(static_cast<std::size_t>(parameter_count(model.shape())));
  for (std::size_t number = 0; number < model.parameters().size(); ++number) {
    const Parameter& parameter = model.parameters()[number];
    const bool is_embedding = parameter.role == Role::embedding || parameter.role == Role::positions;
    const double deviation =
        is_embedding ? 1.0 : std::sqrt(2.0 / static_cast<double>(parameter.shape[0] + parameter.shape[1]));
    for (std::int64_t i = 0; i < parameter.count(); ++i) {
      const double wave = std::sin(0.7 * static_cast<double>(i) + static_cast<double>(number));
      const double value = parameter.role == Role::norm ? 1 + 0.1 * wave
                           : is_bias(parameter.role)    ? 0.1 * wave
                                                        : wave * deviation;
      values[static_cast<std::size_t>(parameter.first + i)] = static_cast<float>(value);
    }
  }
  model.write_state(State::values, values);
}

struct GoldenRun {
  Architecture architecture;
  const char* file;  // loss and norm of each step, from tools/golden training
};
constexpr GoldenRun kGoldenRuns[] = {{Architecture::llama, STROBE_TEST_DATA "/lm/training.txt"},
                                     {Architecture::gpt2, STROBE_TEST_DATA "/lm/training-gpt2.txt"}};

void expect_twenty_steps(const GoldenRun& golden, const ops::ExecutionContext& execution, const ModelOptions& options,
                         double tolerance) {
  SCOPED_TRACE(testing::Message() << name_of(golden.architecture) << ' ' << options.attention);
  std::ifstream file(golden.file);
  Model model(as(golden.architecture, kShape), kBatch, DType::fp32, execution, options);
  model.begin(0);
  begin(model);
  std::string loss_text, norm_text;
  int step = 0;
  for (; file >> loss_text >> norm_text; ++step) {
    std::vector<std::int32_t> tokens, targets;
    for (std::int64_t i = 0; i < kBatch * (kShape.context + 1); ++i) {
      const auto token = static_cast<std::int32_t>((7 * i * i + 3 * i + 11 * step) % kShape.vocabulary);
      const std::int64_t at = i % (kShape.context + 1);
      if (at < kShape.context) tokens.push_back(token);
      if (at > 0) targets.push_back(token);
    }
    const StepResult found =
        model.step(tokens.data(), targets.data(), {.adamw = {.rate = kRate, .step = step + 1}, .clip = kClip});
    const double expected = std::stod(loss_text), expected_norm = std::stod(norm_text);
    EXPECT_NEAR(found.loss / expected, 1, tolerance) << "step " << step;
    EXPECT_NEAR(found.gradient_norm / expected_norm, 1, 10 * tolerance) << "step " << step;
  }
  EXPECT_EQ(step, 20);
}

constexpr GradientMemory kMemories[] = {GradientMemory::own, GradientMemory::shared};
constexpr const char* kKernels[] = {"", "standard"};

TEST(Golden, TwentyStepsAsInPyTorch) {
  for (const GoldenRun& golden : kGoldenRuns) {
    for (const GradientMemory memory : kMemories) {
      for (const char* const kernel : kKernels) {
        expect_twenty_steps(golden, {.threads = 2}, {.attention = kernel, .gradients = memory}, 1e-5);
      }
    }
  }
}

class GpuGolden : public test::GpuTest {};

TEST_F(GpuGolden, TwentyStepsAsInPyTorch) {
  for (const GoldenRun& golden : kGoldenRuns) {
    for (const bool deterministic : {true, false}) {
      for (const GradientMemory memory : kMemories) {
        for (const char* const kernel : kKernels) {
          const ops::ExecutionContext execution{.device = Device::cuda, .threads = 2, .deterministic = deterministic};
          expect_twenty_steps(golden, execution, {.attention = kernel, .gradients = memory}, 1e-4);
        }
      }
    }
  }
}

}  // namespace
}  // namespace strobe::lm
