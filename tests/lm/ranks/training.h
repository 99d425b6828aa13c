// Trains a small model for a few steps, in one process on the whole batch or on ranks that split the batch.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "lm/cases.h"
#include "lm/data_parallel/parallel_model.h"
#include "lm/state/memory.h"
#include "support/sanitized.h"

namespace strobe::test {

inline constexpr std::int64_t kBatch = 4;
inline constexpr int kSteps = kSanitized ? 2 : 5;
inline constexpr std::int64_t kBucketBytes = 200'000;  // gives three buckets, all large enough for the ring algorithm

// Returns a shape with 0.14 M parameters.
inline lm::ModelShape small_shape() {
  return {.d_model = 64, .d_ff = 128, .layers = 3, .heads = 4, .vocabulary = 101, .context = 16};
}

inline lm::StepOptions step_options(int step, double clip, double eps = 1e-8) {
  return {.adamw = {.rate = 1e-3, .eps = eps, .step = step}, .clip = clip};
}

inline lm::ParallelOptions exchange_by(const lm::Strategy& strategy) {
  return {.strategy = strategy, .bucket_bytes = kBucketBytes};
}

struct Trained {
  std::vector<float> values;
  std::vector<double> losses, norms;
  bool operator==(const Trained&) const = default;
};

struct Training {
  double clip = 0;
  double eps = 1e-8;
  DType dtype = DType::fp32;
  std::vector<std::string> frozen{};
  lm::GradientMemory gradients = lm::GradientMemory::own;
  lm::Recompute recompute = lm::Recompute::none;
};

inline std::vector<float> values_of(const lm::Model& model) {
  std::vector<float> values(static_cast<std::size_t>(lm::parameter_count(model.shape())));
  model.read_state(lm::State::values, values);
  return values;
}

// Trains in one process with Model's gradients and AdamW on all parameters that are not frozen.
inline Trained train_alone(const ops::ExecutionContext& execution, const Training& training) {
  lm::Model model(small_shape(), kBatch, training.dtype, execution);
  model.begin(1);
  const std::size_t bytes = lm::float_bytes(lm::parameter_count(small_shape()));
  const lm::Memory mean(model.stream(), bytes, "mean"), variance(model.stream(), bytes, "variance");
  mean.clear();
  variance.clear();
  std::vector<ops::Trained> trained;
  for (const lm::Parameter& parameter : model.parameters()) {
    if (std::find(training.frozen.begin(), training.frozen.end(), parameter.name) != training.frozen.end()) continue;
    trained.push_back({.count = parameter.count(),
                       .value = model.placed_values() + parameter.first,
                       .gradient = model.placed_gradients() + parameter.first,
                       .mean = mean.as<float>() + parameter.first,
                       .variance = variance.as<float>() + parameter.first});
  }
  Trained result;
  for (int step = 1; step <= kSteps; ++step) {
    const lm::Text text(small_shape(), kBatch, static_cast<unsigned>(step));
    result.losses.push_back(model.loss_and_lone_gradients(text.tokens.data(), text.targets.data()));
    result.norms.push_back(ops::gradient_norm(model.execution(), trained));
    ops::AdamW adamw = step_options(step, training.clip, training.eps).adamw;
    adamw.gradient_scale = ops::clip_factor(result.norms.back(), training.clip);
    ops::adamw(model.execution(), adamw, trained);
    model.copy_values();
  }
  result.values = values_of(model);
  return result;
}

// Trains on all ranks, which start with different values.
inline Trained train_together(comm::Communicator& communicator, const ops::ExecutionContext& execution,
                              const lm::Strategy& strategy, const Training& training) {
  lm::Model model(
      small_shape(), lm::batch_of_a_rank(kBatch, communicator.size()), training.dtype, execution,
      {.gradients = training.gradients, .optimizer = lm::OptimizerMemory::outside, .recompute = training.recompute});
  model.begin(1 + static_cast<std::uint64_t>(communicator.rank()));
  lm::ParallelModel together(model, communicator, {.exchange = exchange_by(strategy), .frozen = training.frozen});
  together.begin();
  Trained result;
  for (int step = 1; step <= kSteps; ++step) {
    const lm::Text text(small_shape(), kBatch, static_cast<unsigned>(step));
    const lm::StepResult taken =
        together.step(text.tokens.data(), text.targets.data(), step_options(step, training.clip, training.eps));
    result.losses.push_back(taken.loss);
    result.norms.push_back(taken.gradient_norm);
  }
  result.values = values_of(model);
  return result;
}

// Largest relative differences over all parameters. norm: norm of the difference / norm of the reference. element:
// largest difference of an element / root mean square of the reference.
struct Difference {
  double norm = 0, element = 0;
};
inline Difference difference_of(std::span<const float> found, std::span<const float> wanted) {
  Difference most;
  for (const lm::Parameter& parameter : lm::parameter_table(small_shape())) {
    double squares = 0, differences = 0, largest = 0;
    for (std::int64_t i = parameter.first; i < parameter.first + parameter.count(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double difference = static_cast<double>(found[at]) - wanted[at];
      squares += static_cast<double>(wanted[at]) * wanted[at];
      differences += difference * difference;
      largest = std::max(largest, std::abs(difference));
    }
    most.norm = std::max(most.norm, std::sqrt(differences / squares));
    most.element = std::max(most.element, largest / std::sqrt(squares / static_cast<double>(parameter.count())));
  }
  return most;
}

}  // namespace strobe::test
