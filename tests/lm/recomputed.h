// Runs five training steps with every recomputation mode, for tests on the CPU and on a GPU.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lm/cases.h"
#include "lm/model.h"

namespace strobe::lm {

inline constexpr ModelShape kRecomputedShape{
    .d_model = 64, .d_ff = 96, .layers = 4, .heads = 2, .vocabulary = 37, .context = 33};

struct FiveSteps {
  std::vector<double> losses, norms;
  std::vector<float> values, mean, variance, gradients;

  bool operator==(const FiveSteps&) const = default;
};

inline FiveSteps five_steps(const ModelShape& shape, const ops::ExecutionContext& execution, DType dtype,
                            const ModelOptions& options) {
  constexpr std::int64_t kBatch = 2;
  Model model(shape, kBatch, dtype, execution, options);
  model.begin(5);
  FiveSteps found;
  for (int step = 1; step <= 5; ++step) {
    const Text text(shape, kBatch, static_cast<unsigned>(step));
    const StepResult result =
        model.step(text.tokens.data(), text.targets.data(), {.adamw = {.rate = 1e-2, .step = step}, .clip = 1});
    found.losses.push_back(result.loss);
    found.norms.push_back(result.gradient_norm);
  }
  const auto read = [&](State which, std::vector<float>& into) {
    into.resize(static_cast<std::size_t>(parameter_count(shape)));
    model.read_state(which, into);
  };
  read(State::values, found.values);
  read(State::mean, found.mean);
  read(State::variance, found.variance);
  read(State::gradients, found.gradients);
  return found;
}

inline void expect_same_bits(const ModelShape& shape, const ops::ExecutionContext& execution, DType dtype,
                             const std::string& kernel) {
  for (const GradientMemory memory : {GradientMemory::own, GradientMemory::shared}) {
    ModelOptions options{.attention = kernel, .gradients = memory};
    const FiveSteps kept = five_steps(shape, execution, dtype, options);
    EXPECT_NE(kept.losses.front(), kept.losses.back());
    for (const Recompute recompute : {Recompute::attention, Recompute::block}) {
      options.recompute = recompute;
      EXPECT_TRUE(five_steps(shape, execution, dtype, options) == kept)
          << name_of(shape.architecture) << " " << name_of(dtype) << " " << kernel << " " << name_of(recompute);
    }
  }
}

inline void expect_same_bits(const ops::ExecutionContext& execution, DType dtype, const std::string& kernel) {
  for (const Architecture architecture : kArchitectures) {
    expect_same_bits(as(architecture, kRecomputedShape), execution, dtype, kernel);
  }
}

}  // namespace strobe::lm
