// How gradients are exchanged: calls, bytes, what happens before backward ends, tied tensors, refusals.
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
                      .place = model.place(),
                      .stream = model.stream()};
  for (const lm::Parameter& parameter : model.parameters()) {
    replica.tensors.push_back({.first = parameter.first, .count = parameter.count()});
  }
  return replica;
}

}  // namespace

int calls_and_bytes(comm::Communicator& communicator, const ops::Place& place) {
  Faults faults(communicator);
  const auto parameters = static_cast<std::int64_t>(lm::parameter_table(small_shape()).size());
  const std::int64_t bytes = lm::parameter_count(small_shape()) * 4;
  for (const lm::Strategy& strategy : lm::strategies()) {
    lm::Model model(small_shape(), 1, DType::fp32, place, {.optimizer = lm::OptimizerMemory::outside});
    model.begin(1);
    lm::ParallelModel together(model, communicator, {.exchange = exchange_by(strategy)});
    together.begin();
    const auto buckets = static_cast<std::int64_t>(together.exchange().buckets().size());
    std::int64_t calls = strategy.grouping == lm::Grouping::each  ? parameters
                         : strategy.grouping == lm::Grouping::all ? 1
                                                                  : buckets;
    std::int64_t moved = bytes;
    if (strategy.updates != lm::Updates::all) calls *= 2, moved *= 2;
    if (strategy.updates == lm::Updates::scattered_share) ++calls, moved += 8;  // the norm
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

// Before the last gradient is told of, backward waits until the first bucket's sums are there: only a strategy whose
// communication goes on during backward gets so far.
int order_of_events(comm::Communicator& communicator, const ops::Place& place) {
  Faults faults(communicator);
  for (const lm::Strategy& strategy : lm::strategies()) {
    const bool overlaps = strategy.start == lm::Start::when_ready;
    lm::Model model(small_shape(), 1, DType::fp32, place, {.optimizer = lm::OptimizerMemory::outside});
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

constexpr std::int64_t kTied = 6;  // elements of a and of b

// y = a b a x, element by element, with one a, whose gradient is final after both uses; one x for each sample.
// The values, then each step's norm: AdamW hides a gradient that is wrong by a factor, its norm does not.
std::vector<double> train_tied(comm::Communicator& ranks, const lm::Strategy& strategy, std::span<const int> samples,
                               Faults& faults) {
  std::vector<float> values(2 * kTied, 0.9f), gradients(2 * kTied);
  const float *const a = values.data(), *const b = a + kTied;
  float *const da = gradients.data(), *const db = da + kTied;
  const lm::Replica replica{.values = values.data(),
                            .gradients = gradients.data(),
                            .count = 2 * kTied,
                            .tensors = {{.first = 0, .count = kTied, .uses = 2}, {.first = kTied, .count = kTied}}};
  lm::DataParallel exchange(ranks, replica, {.strategy = strategy, .bucket_bytes = 30});
  exchange.begin();
  std::vector<double> norms;
  for (int step = 1; step <= kSteps; ++step) {
    std::fill(gradients.begin(), gradients.end(), 0.0f);
    const auto each = [&](auto add) {  // add(i, x, dy)
      for (const int sample : samples) {
        for (std::int64_t i = 0; i < kTied; ++i) {
          const float x = 0.5f + 0.1f * static_cast<float>(3 * sample + i);
          add(i, x, (a[i] * b[i] * a[i] * x - 1) / static_cast<float>(samples.size()));
        }
      }
    };
    each([&](std::int64_t i, float x, float dy) { da[i] += dy * b[i] * a[i] * x; });
    exchange.ready(0);
    each([&](std::int64_t i, float x, float dy) { db[i] += dy * a[i] * a[i] * x; });
    exchange.ready(1);
    each([&](std::int64_t i, float x, float dy) { da[i] += dy * a[i] * b[i] * x; });
    exchange.ready(0);
    norms.push_back(exchange.finish({.rate = 0.01, .step = step}, 0.1));
    std::size_t next = 0;  // that of b is first
    for (const ParallelEvent& event : exchange.record().events) {
      if (event.kind != ParallelEvent::Kind::bucket_started) continue;
      faults.expect(event.bucket == next++, std::string(strategy.name) + ": a was exchanged before its second use");
    }
  }
  std::vector<double> result(values.begin(), values.end());
  result.insert(result.end(), norms.begin(), norms.end());
  return result;
}

}  // namespace

int tied_tensor(comm::Communicator& communicator) {
  Faults faults(communicator);
  comm::Communicator alone(comm::world_from([](const char*) -> const char* { return nullptr; }));
  std::vector<int> all(static_cast<std::size_t>(communicator.size()));
  std::iota(all.begin(), all.end(), 0);
  const int own[] = {communicator.rank()};
  for (const lm::Strategy& strategy : lm::strategies()) {
    const std::vector<double> wanted = train_tied(alone, strategy, all, faults);
    const std::vector<double> found = train_tied(communicator, strategy, own, faults);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      faults.expect(std::abs(found[i] - wanted[i]) < 1e-5 * std::abs(wanted[i]),
                    fmt::format("{}: element {} is {}, not {}", strategy.name, i, found[i], wanted[i]));
    }
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
  const ops::Place place{.threads = 1};
  refused("a batch of 5 sequences on 2 ranks", [] { lm::batch_of_a_rank(5, 2); });
  lm::Model own(small_shape(), 1, DType::fp32, place);
  refused("valid: OptimizerMemory::outside", [&] { lm::ParallelModel(own, communicator, {options}); });
  lm::Model half(small_shape(), 1, DType::fp16, place, {.optimizer = lm::OptimizerMemory::outside});
  refused("fp16's loss scale", [&] { lm::ParallelModel(half, communicator, {options}); });
  lm::Model model(small_shape(), 1, DType::fp32, place, {.optimizer = lm::OptimizerMemory::outside});
  refused("frozen wte: no parameter", [&] { lm::ParallelModel(model, communicator, {options, {"wte"}}); });
  const lm::Text text(small_shape(), 1, 1);
  refused("lm: step: the model keeps no optimizer state",
          [&] { model.step(text.tokens.data(), text.targets.data(), {}); });
  lm::DataParallel exchange(communicator, replica_of(model), exchange_by(lm::strategy_of("naive")));
  exchange.begin();
  refused("still waits for 1 gradients", [&] { exchange.finish({}, 0); });
  exchange.ready(0);
  refused("gradient 0 is ready once more than it is used", [&] { exchange.ready(0); });
  refused("gradient 1000 is ready; valid: 0 to 29", [&] { exchange.ready(1000); });
  return faults.count();
}

}  // namespace strobe::test
