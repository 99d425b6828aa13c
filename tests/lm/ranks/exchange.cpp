// Scenarios of the gradient exchange: calls, bytes, overlap with the backward, tied and frozen tensors, and errors.
#include <fmt/format.h>
#include <unistd.h>

#include <numeric>

#include "core/clock.h"
#include "lm/ranks/scenario.h"
#include "lm/ranks/training.h"
#include "strobe/error.h"

namespace strobe::test {
namespace {

using lm::ParallelEvent;

lm::Replica replica_of(const lm::Model& model) {
  lm::Replica replica{.values = model.placed_values(),
                      .gradients = model.placed_gradients(),
                      .count = lm::parameter_count(model.shape()),
                      .tensors = {},
                      .execution = model.execution(),
                      .stream = model.stream()};
  for (const lm::Parameter& parameter : model.parameters()) {
    replica.tensors.push_back({.first = parameter.first, .count = parameter.count()});
  }
  return replica;
}

}  // namespace

int calls_and_bytes(comm::Communicator& communicator, const ops::ExecutionContext& execution) {
  Faults faults(communicator);
  const auto parameters = static_cast<std::int64_t>(lm::parameter_table(small_shape()).size());
  const std::int64_t bytes = lm::parameter_count(small_shape()) * 4;
  for (const lm::Strategy& strategy : lm::strategies()) {
    lm::Model model(small_shape(), 1, DType::fp32, execution, {.optimizer = lm::OptimizerMemory::outside});
    model.begin(1);
    lm::ParallelModel together(model, communicator, {.exchange = exchange_by(strategy)});
    together.begin();
    const auto buckets = static_cast<std::int64_t>(together.exchange().buckets().size());
    std::int64_t calls = strategy.grouping == lm::Grouping::each  ? parameters
                         : strategy.grouping == lm::Grouping::all ? 1
                                                                  : buckets;
    std::int64_t moved = bytes;
    if (strategy.updates != lm::Updates::all) calls *= 2, moved *= 2;
    if (strategy.updates == lm::Updates::scattered_share) ++calls, moved += 8;  // all-reduce of the norm, a double
    if (strategy.grouping == lm::Grouping::buckets) faults.expect(buckets > 2 && buckets < parameters, "no buckets");
    const lm::Text text(small_shape(), communicator.size(), 1);
    for (int step = 1; step <= 2; ++step) {
      together.step(text.tokens.data(), text.targets.data(), step_options(step, 1));
      const lm::StepRecord& record = together.exchange().record();
      faults.expect(record.calls == calls, fmt::format("{}: {} calls, not {}", strategy.name, record.calls, calls));
      faults.expect(record.bytes == moved, fmt::format("{}: {} bytes, not {}", strategy.name, record.bytes, moved));
      faults.expect(record.exposed + record.hidden > 0, "no time of communication");
      if (strategy.start == lm::Start::after_backward) faults.expect(record.hidden == 0, "hidden after backward");
    }
  }
  return faults.count();
}

// The backward waits for the sums of the first bucket before it reports the last gradient. A strategy that starts its
// calls during the backward proceeds. With any other strategy the test does not wait, because it would wait forever.
int order_of_events(comm::Communicator& communicator, const ops::ExecutionContext& execution) {
  Faults faults(communicator);
  for (const lm::Strategy& strategy : lm::strategies()) {
    const bool overlaps = strategy.start == lm::Start::when_ready;
    lm::Model model(small_shape(), 1, DType::fp32, execution, {.optimizer = lm::OptimizerMemory::outside});
    model.begin(1);
    lm::DataParallel exchange(communicator, replica_of(model), exchange_by(strategy));
    exchange.begin();
    bool early = false;
    model.on_gradient_ready([&](std::size_t parameter) {
      const double limit = now_seconds() + 60;
      while (parameter == 0 && overlaps && !exchange.exchanged(0) && now_seconds() < limit) usleep(1'000);
      if (parameter == 0) early = exchange.exchanged(0);
      exchange.ready(parameter);
    });
    const lm::Text text(small_shape(), 1, static_cast<unsigned>(communicator.rank()));
    model.loss_and_lone_gradients(text.tokens.data(), text.targets.data());
    exchange.finish(step_options(1, 0).adamw, 0);
    faults.expect(early == overlaps, std::string(strategy.name) +
                                         (early ? ": sums before backward ended" : ": no sums before backward ended"));
    const lm::StepRecord& record = exchange.record();
    std::size_t started = 0, before = 0, ends = 0;
    double last = 0;
    for (const ParallelEvent& event : record.events) {
      faults.expect(event.seconds >= last, "events out of order");
      last = event.seconds;
      if (event.kind == ParallelEvent::Kind::backward_ended) before = started, ++ends;
      if (event.kind == ParallelEvent::Kind::bucket_started) faults.expect(event.bucket == started++, "wrong bucket");
    }
    faults.expect(started == exchange.buckets().size(), "not every bucket was started");
    faults.expect(ends == 1 && record.backward_ended <= record.update_began, "no end of backward before the update");
    faults.expect(before == (overlaps ? started : 0), fmt::format("{}: {} started early", strategy.name, before));
    if (overlaps) faults.expect(record.hidden > 0, std::string(strategy.name) + ": nothing hidden");
  }
  return faults.count();
}

namespace {

constexpr std::int64_t kWidth = 6;  // elements per tensor

// Four contiguous tensors: tied, frozen, neither, both.
enum : std::size_t { kTied, kFrozen, kPlain, kTiedFrozen, kTensors };

// Result of training. The norms reveal a gradient that is wrong by a factor, which AdamW would hide.
struct TiedRun {
  std::vector<float> values;  // [kTensors, kWidth]
  std::vector<double> norms;  // gradient norm of each step
};

// Trains y = t u f p u t x, element by element, where x depends on the sample. t: tied; u: tied and frozen; f: frozen;
// p: plain. t and u are used twice, so their gradients are final after the second use. The ranks start with different
// values.
TiedRun train_tied(comm::Communicator& ranks, const lm::Strategy& strategy, std::span<const int> samples,
                   Faults& faults) {
  const auto expect = [&](bool holds, const char* what) {
    faults.expect(holds, std::string(strategy.name) + ": " + what);
  };
  const float rank_0[] = {0.9f, 1.1f, 0.8f, 1.2f};  // initial value of each tensor on rank 0
  std::vector<float> values(kTensors * kWidth), gradients(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = rank_0[i / kWidth] + 0.5f * static_cast<float>(ranks.rank());
  }
  const auto of = [](std::vector<float>& all, std::size_t tensor) { return all.data() + tensor * kWidth; };
  const auto tensor = [](std::size_t which, int uses, bool frozen) {
    return lm::Tensor{
        .first = static_cast<std::int64_t>(which) * kWidth, .count = kWidth, .uses = uses, .frozen = frozen};
  };
  const lm::Replica replica{.values = values.data(),
                            .gradients = gradients.data(),
                            .count = static_cast<std::int64_t>(values.size()),
                            .tensors = {tensor(kTied, 2, false), tensor(kFrozen, 1, true), tensor(kPlain, 1, false),
                                        tensor(kTiedFrozen, 2, true)}};
  lm::DataParallel exchange(ranks, replica, {.strategy = strategy, .bucket_bytes = 30});
  exchange.begin();
  const float *const t = of(values, kTied), *const f = of(values, kFrozen), *const p = of(values, kPlain),
                     *const u = of(values, kTiedFrozen);
  const auto as_begun = [&](std::size_t which) {
    return std::all_of(of(values, which), of(values, which) + kWidth, [&](float v) { return v == rank_0[which]; });
  };
  for (const std::size_t which : {kTied, kFrozen, kPlain, kTiedFrozen}) expect(as_begun(which), "not rank 0's values");
  TiedRun run;
  for (int step = 1; step <= kSteps; ++step) {
    std::fill(gradients.begin(), gradients.end(), 0.0f);
    // Adds the gradient of one use of a tensor: (y - 1) / samples, times y / tensor, the product of the other factors.
    const auto use = [&](std::size_t which) {
      for (const int sample : samples) {
        for (std::int64_t i = 0; i < kWidth; ++i) {
          const float x = 0.5f + 0.1f * static_cast<float>(3 * sample + i);
          const float y = t[i] * u[i] * f[i] * p[i] * u[i] * t[i] * x;
          of(gradients, which)[i] += (y - 1) / static_cast<float>(samples.size()) * y / of(values, which)[i];
        }
      }
      exchange.ready(which);
    };
    for (const std::size_t which : {kTied, kTiedFrozen, kFrozen, kPlain, kTiedFrozen, kTied}) use(which);
    const std::vector<float> own = gradients;
    run.norms.push_back(exchange.finish({.rate = 0.01, .step = step}, 0.1).norm);
    double squares = 0;
    for (const std::size_t which : {kTied, kPlain}) {
      for (std::size_t i = which * kWidth; i < (which + 1) * kWidth; ++i)
        squares += static_cast<double>(own[i]) * own[i];
    }
    expect(ranks.size() > 1 || std::abs(run.norms.back() - std::sqrt(squares)) < 1e-5 * std::sqrt(squares),
           "the norm is not that of the trained tensors");
    std::size_t started = 0;  // the plain tensor's call starts first
    for (const ParallelEvent& event : exchange.record().events) {
      if (event.kind != ParallelEvent::Kind::bucket_started) continue;
      expect(event.bucket == started++, "a tied tensor was exchanged before its second use");
    }
    expect(started == 2, "frozen tensors are exchanged");
    const auto untouched = [&](std::size_t which) {
      const auto first = static_cast<std::ptrdiff_t>(which) * kWidth;
      return std::equal(own.begin() + first, own.begin() + first + kWidth, gradients.begin() + first);
    };
    expect(untouched(kFrozen) && untouched(kTiedFrozen), "gradients of frozen tensors are summed");
  }
  expect(as_begun(kFrozen) && as_begun(kTiedFrozen), "frozen tensors changed");
  expect(!as_begun(kTied) && !as_begun(kPlain), "trained tensors stayed");
  run.values = values;
  return run;
}

}  // namespace

int tied_and_frozen(comm::Communicator& communicator) {
  Faults faults(communicator);
  comm::Communicator alone(comm::world_from([](const char*) -> const char* { return nullptr; }));
  std::vector<int> all(static_cast<std::size_t>(communicator.size()));
  std::iota(all.begin(), all.end(), 0);
  const int own[] = {communicator.rank()};
  for (const lm::Strategy& strategy : lm::strategies()) {
    const TiedRun wanted = train_tied(alone, strategy, all, faults);
    const TiedRun found = train_tied(communicator, strategy, own, faults);
    const auto compare = [&](const char* what, std::size_t i, double value, double other) {
      faults.expect(std::abs(value - other) < 1e-5 * std::abs(other),
                    fmt::format("{}: {} {} is {}, not {}", strategy.name, what, i, value, other));
    };
    for (std::size_t i = 0; i < wanted.values.size(); ++i) compare("element", i, found.values[i], wanted.values[i]);
    for (std::size_t i = 0; i < wanted.norms.size(); ++i) compare("norm", i, found.norms[i], wanted.norms[i]);
  }
  return faults.count();
}

int refusals(comm::Communicator& communicator) {
  Faults faults(communicator);
  const auto refused = [&](const std::string& says, const std::function<void()>& work) {
    try {
      work();
      faults.expect(false, "not refused: " + says);
    } catch (const Error& error) {
      faults.expect(std::string(error.what()).find(says) != std::string::npos, error.what());
    }
  };
  const lm::ParallelOptions options = exchange_by(lm::strategy_of("overlap"));
  const ops::ExecutionContext execution{.threads = 1};
  refused("a batch of 5 sequences on 2 ranks", [] { lm::batch_of_a_rank(5, 2); });
  lm::Model own(small_shape(), 1, DType::fp32, execution);
  refused("valid: OptimizerMemory::outside", [&] { lm::ParallelModel(own, communicator, {options}); });
  lm::Model model(small_shape(), 1, DType::fp32, execution, {.optimizer = lm::OptimizerMemory::outside});
  refused("frozen wte: not a parameter", [&] { lm::ParallelModel(model, communicator, {options, {"wte"}}); });
  const lm::Text text(small_shape(), 1, 1);
  refused("lm: step: the model keeps no optimizer state",
          [&] { model.step(text.tokens.data(), text.targets.data(), {}); });
  lm::DataParallel exchange(communicator, replica_of(model), exchange_by(lm::strategy_of("naive")));
  exchange.begin();
  refused("still waits for 1 gradients", [&] { exchange.finish({}, 0); });
  exchange.ready(0);
  refused("gradient 0 was reported as ready more often than it is used", [&] { exchange.ready(0); });
  refused("gradient 1000 is ready; valid: 0 to 29", [&] { exchange.ready(1000); });
  return faults.count();
}

}  // namespace strobe::test
