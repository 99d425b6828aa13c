// Times a training step as a whole and by phase.
#include "lm/profile/step_bench.h"

#include <vector>

#include "core/clock.h"
#include "core/philox.h"
#include "lm/plan/device_memory.h"

namespace strobe::lm {

namespace {

class StepBench {
 public:
  StepBench(const BenchCase& one, const std::function<void(double)>& after_run)
      : one_(one), after_run_(after_run), pass_(one), model_(pass_.model()) {}

  BenchTimes run() {
    BenchTimes times;
    double loss = 0;
    times.whole = timed([&] { loss = pass_.run(); }, times.skipped);
    times.loss = loss;
    if (one_.pass == BenchPass::forward) {
      times.forward = times.whole;
    } else {
      if (scales_loss()) take_fine_step();
      time_phases(times);
    }
    return times;
  }

 private:
  AllocationCounter& counter() const { return allocator_of(model_.stream()); }

  bool scales_loss() const { return one_.pass == BenchPass::step && one_.precision == Precision::fp16; }

  PhaseTimes timed(const std::function<void()>& work, std::int64_t& skipped) {
    counter().reset_peak();
    std::int64_t before = model_.loss_scale().skipped;
    std::vector<double> samples;
    for (int run = 0; run < one_.warmup + one_.steps; ++run) {
      if (run == one_.warmup) before = model_.loss_scale().skipped;
      const double begin = now_seconds();
      work();
      const double seconds = now_seconds() - begin;
      if (run >= one_.warmup) samples.push_back(seconds);
      if (after_run_) after_run_(seconds);
    }
    skipped = model_.loss_scale().skipped - before;
    return {summarize(samples), counter().statistics().peak};
  }

  // Takes steps until a gradient does not overflow, because time_phases() repeats the last step.
  void take_fine_step() {
    std::int64_t before = 0;
    do {
      before = model_.loss_scale().skipped;
      pass_.run();
    } while (model_.loss_scale().skipped > before && model_.loss_scale().scale > LossScale::kLeast);
  }

  // Times the phases of each step separately. On the GPU events measure them, and the host queues the whole step before
  // it waits.
  void time_phases(BenchTimes& times) {
    const std::size_t phases = one_.pass == BenchPass::step ? 3 : 2;
    std::vector<double> samples[3];
    std::size_t peak[3] = {};
    std::vector<GpuEvent> events;
    if (model_.stream()) {
      for (std::size_t i = 0; i <= phases; ++i) events.emplace_back();
    }
    for (int run = 0; run < one_.warmup + one_.steps; ++run) {
      const bool counts = run >= one_.warmup;
      const double run_begin = now_seconds();
      if (!events.empty()) events[0].record(*model_.stream());
      for (std::size_t i = 0; i < phases; ++i) {
        counter().reset_peak();
        const double begin = now_seconds();
        model_.run_phase(static_cast<Phase>(i));
        if (!events.empty()) {
          events[i + 1].record(*model_.stream());
        } else if (counts) {
          samples[i].push_back(now_seconds() - begin);
        }
        peak[i] = std::max(peak[i], counter().statistics().peak);
      }
      if (!events.empty()) events[phases].synchronize();
      if (counts && scales_loss() && model_.update_skipped()) ++times.skipped_updates;
      if (after_run_) after_run_(now_seconds() - run_begin);
      if (events.empty()) continue;
      for (std::size_t i = 0; i < phases && counts; ++i) {
        samples[i].push_back(events[i + 1].seconds_since(events[i]));
      }
    }
    std::optional<PhaseTimes>* const into[] = {&times.forward, &times.backward, &times.update};
    for (std::size_t i = 0; i < phases; ++i) *into[i] = PhaseTimes{summarize(samples[i]), peak[i]};
  }

  const BenchCase& one_;
  const std::function<void(double)>& after_run_;
  PassRun pass_;
  Model& model_;
};

}  // namespace

std::vector<std::int32_t> bench_tokens(const BenchCase& one, std::uint64_t seed) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(one.batch * one.shape.context));
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const auto words = philox({static_cast<std::uint32_t>(t), 0, 0, 0x746f6b}, seed);
    tokens[t] = static_cast<std::int32_t>(words[0] % static_cast<std::uint64_t>(one.shape.vocabulary));
  }
  return tokens;
}

PassRun::PassRun(const BenchCase& one, Parameters parameters)
    : one_(check_memory(one)),
      model_(with_memory_advice(
          one,
          [&] {
            return Model(
                one.shape, one.batch, dtype_of(one.precision), place_of(one),
                {.attention = one.attention, .gradients = gradient_memory_of(one), .recompute = one.recompute});
          })),
      tokens_(bench_tokens(one, 1)),
      targets_(bench_tokens(one, 2)) {
  parameters == Parameters::drawn ? model_.begin(1) : model_.begin_at_zero();
}

double PassRun::run() {
  switch (one_.pass) {
    case BenchPass::forward: return model_.loss(tokens_.data(), targets_.data());
    case BenchPass::forward_backward: return model_.loss_and_lone_gradients(tokens_.data(), targets_.data());
    case BenchPass::step: break;
  }
  ++step_;
  return model_
      .step(tokens_.data(), targets_.data(),
            {.adamw = {.rate = 1e-4, .step = step_}, .clip = one_.clip, .needs_norm = false})
      .loss;
}

BenchTimes time_step(const BenchCase& one, const std::function<void(double)>& after_run) {
  return StepBench(one, after_run).run();
}

std::int64_t passes_of(const BenchCase& one) {
  return std::int64_t{one.warmup + one.steps} * (one.pass == BenchPass::forward ? 1 : 2);
}

}  // namespace strobe::lm
