// Scenarios that compare parameters after some steps: with one process on the whole batch, with a repeated run, and
// with sharded strategies. Other scenarios check the AdamW moments and the initial values of each rank.
#include <fmt/format.h>

#include "lm/ranks/scenario.h"
#include "lm/ranks/training.h"
#include "lm/state/memory.h"

namespace strobe::test {
namespace {

constexpr double kLargeEps = 1e-5;

// Returns the names of frozen parameters that changed and of trained ones that did not.
std::vector<std::string> wrongly_trained(std::span<const float> values, const std::vector<std::string>& frozen) {
  lm::Model untrained(small_shape(), 1, DType::fp32, {.threads = 1});
  untrained.begin(1);
  std::vector<std::string> names;
  for (const lm::Parameter& parameter : untrained.parameters()) {
    const auto begin = values.begin() + parameter.first;
    const bool stayed = std::equal(begin, begin + parameter.count(), untrained.values().begin() + parameter.first);
    const bool is_frozen = std::find(frozen.begin(), frozen.end(), parameter.name) != frozen.end();
    if (stayed != is_frozen) names.push_back(parameter.name);
  }
  return names;
}

}  // namespace

// AdamW divides by the gradient's magnitude, so the update of an element with a gradient near 0 depends on the rounding
// of sums. With the usual eps, whole parameters must agree to 1e-5; with a larger eps, every element.
int equals_one_process(comm::Communicator& communicator, const ops::ExecutionContext& execution) {
  Faults faults(communicator);
  const Training trainings[] = {{},
                                {.clip = 0.5},
                                {.clip = 0.5, .eps = kLargeEps},
                                {.clip = 0.5,
                                 .eps = kLargeEps,
                                 .frozen = {"embedding.weight", "layers.1.feed_forward.w1.weight", "norm.weight"}}};
  for (const Training& training : trainings) {
    const Trained alone = train_alone(execution, training);
    if (training.clip > 0) faults.expect(alone.norms[0] > training.clip, "nothing is clipped");
    for (const lm::Strategy& strategy : lm::strategies()) {
      const Trained together = train_together(communicator, execution, strategy, training);
      const auto expect = [&](bool holds, const std::string& what) {
        faults.expect(holds, fmt::format("{}, clip {}, {} frozen: {}", strategy.name, training.clip,
                                         training.frozen.size(), what));
      };
      const auto [norm, element] = difference_of(together.values, alone.values);
      expect(norm < 1e-5, fmt::format("a parameter differs by {}", norm));
      if (training.eps == kLargeEps) expect(element < 1e-5, fmt::format("an element differs by {}", element));
      for (std::size_t step = 0; step < kSteps; ++step) {
        expect(std::abs(together.losses[step] - alone.losses[step]) < 1e-5 * alone.losses[step],
               fmt::format("step {}: loss {}, not {}", step + 1, together.losses[step], alone.losses[step]));
        expect(std::abs(together.norms[step] - alone.norms[step]) < 1e-5 * alone.norms[step],
               fmt::format("step {}: norm {}, not {}", step + 1, together.norms[step], alone.norms[step]));
      }
      if (!training.frozen.empty()) {  // repeats one of the trainings, the one with most options
        expect(train_together(communicator, execution, strategy, training) == together,
               "different bits in a repeated run");
      }
      std::vector<float> first = together.values;  // the values of rank 0
      communicator.broadcast(comm::elements(std::span(first)));
      expect(first == together.values, "parameters that differ from those of rank 0");
      for (const std::string& name : wrongly_trained(together.values, training.frozen)) {
        expect(false, name + " is frozen but changed, or is trained but did not change");
      }
    }
  }
  return faults.count();
}

// Compares each sharded strategy with the unsharded one that has the same buckets: equal bits, or 1e-6 with
// reduce-scatter.
int shared_optimizer(comm::Communicator& communicator, const ops::ExecutionContext& execution) {
  Faults faults(communicator);
  const auto train = [&](const char* name) {
    return train_together(communicator, execution, lm::strategy_of(name), {.clip = 0.5, .dtype = DType::fp32});
  };
  const Trained flat = train("flat"), bucketed = train("bucketed");
  faults.expect(train("sharded") == flat, "sharded and flat have different bits");
  faults.expect(train("sharded-overlap") == bucketed, "sharded-overlap and bucketed have different bits");
  faults.expect(difference_of(train("sharded-rs").values, bucketed.values).element < 1e-6,
                "sharded-rs differs from bucketed by more than 1e-6");
  const Training bf16{.clip = 0.5, .dtype = DType::bf16};
  faults.expect(train_together(communicator, execution, lm::strategy_of("sharded"), bf16) ==
                    train_together(communicator, execution, lm::strategy_of("flat"), bf16),
                "bf16: sharded and flat have different bits");

  const std::size_t all = static_cast<std::size_t>(lm::parameter_count(small_shape())) * sizeof(float);
  const auto allocated_bytes = [&] {
    const bool on_gpu = execution.device == Device::cuda;
    return on_gpu ? gpu_allocator().statistics().current : host_allocator().statistics().current;
  };
  std::size_t largest = 0;
  for (const lm::Parameter& parameter : lm::parameter_table(small_shape())) {
    largest = std::max(largest, static_cast<std::size_t>(parameter.count()) * sizeof(float));
  }
  for (const lm::Strategy& strategy : lm::strategies()) {
    const std::size_t before = allocated_bytes();
    lm::Model model(small_shape(), 1, DType::fp32, execution, {.optimizer = lm::OptimizerMemory::outside});
    const std::size_t of_model = allocated_bytes();
    const lm::ParallelModel together(model, communicator, {.exchange = exchange_by(strategy)});
    const std::size_t added = allocated_bytes() - of_model;
    const auto ranks = static_cast<std::size_t>(communicator.size());
    // Tensors per parameter: two moments, and with scattered_share also the rank's share of the gradients.
    const std::size_t parts = strategy.updates == lm::Updates::scattered_share ? 3 : 2;
    const std::size_t most =
        sizeof(ops::Update) + (strategy.updates == lm::Updates::all ? parts * all : parts * (all / ranks) + largest);
    faults.expect(added <= most && added >= parts * all / (strategy.updates == lm::Updates::all ? 1 : ranks) - largest,
                  fmt::format("{}: {} bytes of optimizer, at most {}", strategy.name, added, most));
    if (strategy.updates == lm::Updates::all) {
      lm::Model whole(small_shape(), 1, DType::fp32, execution);
      const std::size_t with_state = allocated_bytes() - of_model - added;
      faults.expect(with_state == of_model - before + 2 * all, "the model still has state of its own");
    }
  }
  return faults.count();
}

// Gradients that reuse memory of activations are final when they are reported, and the backward does not read memory to
// which the exchange writes. Recomputation changes no bit.
int shared_gradients(comm::Communicator& communicator, const ops::ExecutionContext& execution) {
  Faults faults(communicator);
  for (const lm::Strategy& strategy : lm::strategies()) {
    const Trained own = train_together(communicator, execution, strategy, {.clip = 0.5});
    for (const lm::Recompute recompute : {lm::Recompute::none, lm::Recompute::attention, lm::Recompute::block}) {
      const Training training{.clip = 0.5, .gradients = lm::GradientMemory::shared, .recompute = recompute};
      faults.expect(train_together(communicator, execution, strategy, training) == own,
                    fmt::format("{}, recompute {}: different bits if gradients share memory", strategy.name,
                                lm::name_of(recompute)));
    }
  }
  return faults.count();
}

// Scatters the moments of rank 0 to the ranks that own them, and gathers them again, in chunks of 7777 elements.
int averages(comm::Communicator& communicator, const ops::ExecutionContext& execution) {
  Faults faults(communicator);
  using Average = lm::DataParallel::Average;
  constexpr std::size_t kChunk = 7777;
  const auto count = static_cast<std::size_t>(lm::parameter_count(small_shape()));
  for (const lm::Strategy& strategy : lm::strategies()) {
    lm::Model model(small_shape(), 1, DType::fp32, execution, {.optimizer = lm::OptimizerMemory::outside});
    model.begin(1);
    const std::string frozen = "layers.1.feed_forward.w1.weight";
    lm::ParallelModel together(model, communicator, {.exchange = exchange_by(strategy), .frozen = {frozen}});
    together.begin();
    const auto value = [](Average which, std::size_t i) {
      return static_cast<float>(i) + (which == Average::mean ? 0.25f : 0.5f);
    };
    std::vector<float> chunk;
    const auto each_chunk = [&](const auto& use) {
      for (const Average which : {Average::mean, Average::variance}) {
        for (std::size_t first = 0; first < count; first += kChunk) {
          chunk.assign(std::min(kChunk, count - first), -1.0f);
          use(which, first);
        }
      }
    };
    each_chunk([&](Average which, std::size_t first) {
      for (std::size_t i = 0; i < chunk.size(); ++i) chunk[i] = value(which, first + i);
      together.exchange().write_average(which, static_cast<std::int64_t>(first), chunk);
    });
    std::int64_t wrong = 0, zeros = 0;
    each_chunk([&](Average which, std::size_t first) {
      together.exchange().read_average(which, static_cast<std::int64_t>(first), chunk);
      for (std::size_t i = 0; i < chunk.size(); ++i) {
        zeros += chunk[i] == 0 ? 1 : 0;
        wrong += chunk[i] != 0 && chunk[i] != value(which, first + i) ? 1 : 0;
      }
    });
    faults.expect(wrong == 0, fmt::format("{}: {} moments are wrong", strategy.name, wrong));
    faults.expect(zeros == 2 * 64 * 128,
                  fmt::format("{}: {} moments are 0, not only those of the frozen tensor", strategy.name, zeros));
  }
  return faults.count();
}

int first_broadcast(comm::Communicator& communicator, const ops::ExecutionContext& execution) {
  Faults faults(communicator);
  lm::Model model(small_shape(), 1, DType::fp32, execution, {.optimizer = lm::OptimizerMemory::outside});
  lm::Model wanted(small_shape(), 1, DType::fp32, {.threads = 1});
  wanted.begin(7);
  model.begin(7 + static_cast<std::uint64_t>(communicator.rank()));
  const auto same = [&] { return values_of(model) == values_of(wanted); };
  faults.expect(same() == (communicator.rank() == 0), "only rank 0 must start with its values");
  lm::ParallelModel together(model, communicator,
                             {.exchange = exchange_by(lm::strategy_of("naive")), .frozen = {"embedding.weight"}});
  together.begin();
  faults.expect(same(), "not rank 0's values");
  return faults.count();
}

}  // namespace strobe::test
