// Trains a model on several ranks and in one process, and compares losses and parameters.
#include "lm/data_parallel/verify.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "lm/data_parallel/parallel_backend.h"
#include "lm/data_parallel/toy_mlp.h"
#include "lm/train/trainer.h"

namespace strobe::lm {

namespace {

struct TrainedOnce {
  std::vector<double> losses;
  std::vector<float> values;
  std::int64_t skipped = 0;
};

struct NamedRange {
  std::string name;
  std::int64_t first, count;
};

// Returns the maximum; a NaN counts as infinity.
double larger(double most, double value) {
  return std::isnan(value) ? std::numeric_limits<double>::infinity() : std::max(most, value);
}

double relative_difference(double found, double wanted) {
  const double difference = std::abs(found - wanted);
  return difference == 0 ? 0 : difference / std::abs(wanted);
}

ParameterDifference difference_of(const NamedRange& range, const std::vector<float>& found,
                                  const std::vector<float>& wanted) {
  ParameterDifference result{.name = range.name};
  double squares = 0, wanted_squares = 0;
  for (std::int64_t i = range.first; i < range.first + range.count; ++i) {
    const double value = wanted[static_cast<std::size_t>(i)];
    const double difference = std::abs(static_cast<double>(found[static_cast<std::size_t>(i)]) - value);
    result.largest = larger(result.largest, difference);
    result.mean += difference / static_cast<double>(range.count);
    squares += difference * difference;
    wanted_squares += value * value;
  }
  result.relative = squares == 0 ? 0 : std::sqrt(squares / wanted_squares);
  return result;
}

std::int64_t ranks_that_differ(comm::Communicator& communicator, const std::vector<float>& own) {
  std::vector<float> first = own;
  communicator.broadcast(comm::elements(std::span(first)));
  std::int64_t differs = std::ranges::equal(std::as_bytes(std::span(first)), std::as_bytes(std::span(own))) ? 0 : 1;
  communicator.all_reduce(comm::elements(std::span(&differs, 1)));
  return differs;
}

// Returns the strategy with the same grouping in which every rank updates all parameters; empty if `strategy` already
// does that.
std::optional<Strategy> unsharded_of(const Strategy& strategy) {
  if (strategy.updates == Updates::all) return {};
  return strategy_of(strategy.grouping == Grouping::all ? "flat" : "bucketed");
}

using TrainWith = std::function<TrainedOnce(const ParallelOptions&)>;
using AfterStep = std::function<void()>;

struct Subject {
  const char* model;
  Precision precision;
  std::vector<NamedRange> ranges;
  TrainWith on_ranks;
  std::function<TrainedOnce(const AfterStep&)> alone;
};

Verification verify(comm::Communicator& communicator, const Subject& subject, const ParallelOptions& exchange) {
  const auto& [model, precision, ranges, on_ranks, alone] = subject;
  Verification result{.model = model, .bounds = verify_bounds(precision)};
  const TrainedOnce found = on_ranks(exchange);
  result.ranks = found.losses;
  result.skipped = found.skipped;
  result.other_ranks = ranks_that_differ(communicator, found.values);
  if (const std::optional<Strategy> unsharded = unsharded_of(exchange.strategy)) {
    const TrainedOnce other = on_ranks({.strategy = *unsharded, .bucket_bytes = exchange.bucket_bytes});
    result.unsharded = unsharded->name;
    for (const NamedRange& range : ranges) {
      result.from_unsharded = larger(result.from_unsharded, difference_of(range, found.values, other.values).relative);
    }
    if (exchange.strategy.updates == Updates::scattered_share) result.most_from_unsharded = result.bounds.scattered;
  }
  // Rank 0 trains in one process. The other ranks sleep in a barrier per step, so no call lasts longer than one step.
  const auto wait_for_step = [&] { communicator.barrier_asleep(); };
  if (communicator.rank() != 0) {
    for (std::size_t step = 0; step < found.losses.size(); ++step) wait_for_step();
  } else {
    const TrainedOnce wanted = alone(wait_for_step);
    result.alone = wanted.losses;
    for (std::size_t i = 0; i < wanted.losses.size(); ++i) {
      result.losses = larger(result.losses, relative_difference(found.losses[i], wanted.losses[i]));
    }
    for (const NamedRange& range : ranges) {
      result.parameters.push_back(difference_of(range, found.values, wanted.values));
      result.weights = larger(result.weights, result.parameters.back().relative);
    }
  }
  return result;
}

TrainedOnce train(
    const Settings& settings, const TokenFile& data, std::unique_ptr<TrainingBackend> backend,
    const AfterStep& after_step = [] {}) {
  Trainer trainer(settings, data, std::move(backend));
  trainer.begin();
  TrainedOnce result;
  while (!trainer.done()) {
    result.losses.push_back(trainer.step().loss);
    after_step();
  }
  result.skipped = trainer.progress().loss_scale.skipped;
  result.values.resize(static_cast<std::size_t>(parameter_count(settings.shape)));
  trainer.model().read_state(State::values, result.values);
  return result;
}

constexpr std::int64_t kRowsOfARank = 8;
constexpr double kToyRate = 1e-2, kToyClip = 0.1;

ops::AdamW toy_adamw(std::int64_t step) { return {.rate = kToyRate, .step = step}; }

TrainedOnce train_toy(comm::Communicator& communicator, std::int64_t steps, const ParallelOptions& exchange) {
  ToyMlp toy;
  DataParallel together(communicator,
                        {.values = toy.values().data(),
                         .gradients = toy.gradients().data(),
                         .count = static_cast<std::int64_t>(toy.values().size()),
                         .tensors = ToyMlp::tensors()},
                        exchange);
  together.begin();
  TrainedOnce result;
  for (std::int64_t step = 1; step <= steps; ++step) {
    const std::int64_t first = ((step - 1) * communicator.size() + communicator.rank()) * kRowsOfARank;
    const double loss = toy.loss_with_gradients(first, kRowsOfARank, [&](std::size_t i) { together.ready(i); });
    together.finish(toy_adamw(step), kToyClip);
    result.losses.push_back(together.mean_of_ranks(loss));
  }
  result.values.assign(toy.values().begin(), toy.values().end());
  return result;
}

TrainedOnce train_toy_alone(int ranks, std::int64_t steps, const AfterStep& after_step) {
  ToyMlp toy;
  std::vector<float> mean(toy.values().size()), variance(toy.values().size());
  const ops::Trained all{.count = static_cast<std::int64_t>(mean.size()),
                         .value = toy.values().data(),
                         .gradient = toy.gradients().data(),
                         .mean = mean.data(),
                         .variance = variance.data()};
  TrainedOnce result;
  const std::int64_t rows = ranks * kRowsOfARank;
  for (std::int64_t step = 1; step <= steps; ++step) {
    result.losses.push_back(toy.loss_with_gradients((step - 1) * rows, rows, [](std::size_t) {}));
    ops::AdamW adamw = toy_adamw(step);
    adamw.gradient_scale = ops::clip_factor(ops::gradient_norm({.threads = 1}, {&all, 1}), kToyClip);
    ops::adamw({.threads = 1}, adamw, {&all, 1});
    after_step();
  }
  result.values.assign(toy.values().begin(), toy.values().end());
  return result;
}

}  // namespace

VerifyBounds verify_bounds(Precision precision) {
  if (precision == Precision::fp32) return {.losses = 1e-5, .weights = 1e-5, .scattered = 1e-6};
  return {.losses = 2e-3, .weights = {}, .scattered = 2e-3};
}

Verification verify_language_model(comm::Communicator& communicator, const Settings& settings, const TokenFile& data,
                                   const BackendOptions& options, const ParallelOptions& exchange) {
  std::vector<NamedRange> ranges;
  for (const Parameter& parameter : parameter_table(settings.shape)) {
    ranges.push_back({parameter.name, parameter.first, parameter.count()});
  }
  const auto on_ranks = [&](const ParallelOptions& by) {
    return train(settings, data, std::make_unique<ParallelBackend>(communicator, settings, options, by));
  };
  const auto alone = [&](const AfterStep& after_step) {
    return train(settings, data, std::make_unique<SingleBackend>(settings, options), after_step);
  };
  return verify(communicator, {"language model", settings.precision, ranges, on_ranks, alone}, exchange);
}

Verification verify_toy_mlp(comm::Communicator& communicator, std::int64_t steps, const ParallelOptions& exchange) {
  std::vector<NamedRange> ranges;
  for (const Tensor& tensor : ToyMlp::tensors()) {
    ranges.push_back({ToyMlp::names()[ranges.size()], tensor.first, tensor.count});
  }
  const auto on_ranks = [&](const ParallelOptions& by) { return train_toy(communicator, steps, by); };
  const auto alone = [&](const AfterStep& after_step) {
    return train_toy_alone(communicator.size(), steps, after_step);
  };
  return verify(communicator, {"toy MLP with biases", Precision::fp32, ranges, on_ranks, alone}, exchange);
}

}  // namespace strobe::lm
