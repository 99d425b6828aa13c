// Scenarios of fp16 on several ranks: the loss scale, and steps that are skipped because a gradient overflowed.
#include <fmt/format.h>

#include <limits>

#include "lm/ranks/scenario.h"
#include "lm/ranks/training.h"

namespace strobe::test {
namespace {

constexpr std::int64_t kElements = 5;  // per tensor; not divisible by 2 or 4 ranks

// The gradient of one rank has an infinity, in a range that sharded strategies may assign to another rank. All ranks
// must skip the step.
void skip_for_one_rank(comm::Communicator& ranks, const lm::Strategy& strategy, Faults& faults) {
  std::vector<float> values(2 * kElements, 0.5f), gradients(values.size());
  const lm::Replica replica{.values = values.data(),
                            .gradients = gradients.data(),
                            .count = 2 * kElements,
                            .tensors = {{.first = 0, .count = kElements}, {.first = kElements, .count = kElements}}};
  lm::DataParallel exchange(ranks, replica, {.strategy = strategy, .bucket_bytes = 4 * kElements});
  exchange.begin();
  const std::vector<float> before = values;
  const auto step = [&](bool overflows) {
    std::fill(gradients.begin(), gradients.end(), 0.25f);
    if (overflows && ranks.rank() == ranks.size() - 1) gradients[1] = std::numeric_limits<float>::infinity();
    exchange.ready(1);
    exchange.ready(0);
    return exchange.finish({.rate = 0.01, .step = 1}, 1, lm::Overflow::skipped).skipped;
  };
  const auto expect = [&](bool holds, const char* what) {
    faults.expect(holds, fmt::format("{}: {}", strategy.name, what));
  };
  expect(step(true), "not skipped");
  expect(values == before, "a skipped step changed values");
  expect(!step(false), "skipped although every gradient is finite");
  expect(values != before, "a step changed nothing");
}

// Starts at a loss scale at which the first steps overflow, and compares each step with one process.
void lower_the_scale(comm::Communicator& ranks, const ops::ExecutionContext& execution, const lm::Strategy& strategy,
                     Faults& faults) {
  constexpr int kMostSteps = 40;
  const auto expect = [&](bool holds, const std::string& what) {
    faults.expect(holds, fmt::format("{}: {}", strategy.name, what));
  };
  lm::Model whole(small_shape(), kBatch, DType::fp16, execution);
  lm::Model model(small_shape(), lm::batch_of_a_rank(kBatch, ranks.size()), DType::fp16, execution,
                  {.gradients = lm::GradientMemory::shared, .optimizer = lm::OptimizerMemory::outside});
  whole.begin(1);
  model.begin(1);
  whole.set_loss_scale({.scale = lm::LossScale::kMost});
  model.set_loss_scale({.scale = lm::LossScale::kMost});
  lm::ParallelModel together(model, ranks, {.exchange = exchange_by(strategy)});
  together.begin();
  int taken = 0;
  for (int step = 1; step <= kMostSteps && taken < kSteps; ++step) {
    const lm::Text text(small_shape(), kBatch, static_cast<unsigned>(taken));
    const auto options = [](const lm::Model& of, int at) {
      return step_options(at - static_cast<int>(of.loss_scale().skipped), 0.5);
    };
    const lm::StepResult found = together.step(text.tokens.data(), text.targets.data(), options(model, step));
    const lm::StepResult wanted = whole.step(text.tokens.data(), text.targets.data(), options(whole, step));
    expect(found.skipped == wanted.skipped, fmt::format("step {}: skipped by one and not by the other", step));
    expect(found.skipped_in_all == model.loss_scale().skipped, "another number of skipped steps");
    expect(std::abs(found.loss - wanted.loss) < 2e-3 * wanted.loss,
           fmt::format("step {}: loss {}, not {}", step, found.loss, wanted.loss));
    if (!found.skipped) ++taken;
  }
  expect(model.loss_scale() == whole.loss_scale(), fmt::format("a loss scale of {}", model.loss_scale().scale));
  expect(model.loss_scale().skipped > 0, "no gradient overflowed");
  expect(taken == kSteps, "every gradient overflowed");
  std::vector<float> first = values_of(model);
  ranks.broadcast(comm::elements(std::span(first)));
  expect(first == values_of(model), "parameters that differ from those of rank 0");
}

}  // namespace

int loss_scale(comm::Communicator& communicator, const ops::ExecutionContext& execution) {
  Faults faults(communicator);
  for (const lm::Strategy& strategy : lm::strategies()) {
    skip_for_one_rank(communicator, strategy, faults);
    lower_the_scale(communicator, execution, strategy, faults);
  }
  const Training fp16{.clip = 0.5, .dtype = DType::fp16};
  const auto train = [&](const char* name) {
    return train_together(communicator, execution, lm::strategy_of(name), fp16);
  };
  faults.expect(train("sharded") == train("flat"), "fp16: sharded and flat have different bits");
  return faults.count();
}

}  // namespace strobe::test
