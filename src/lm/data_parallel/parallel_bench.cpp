// Times training steps on several ranks and in one process, and builds their traces.
#include "lm/data_parallel/parallel_bench.h"

#include <fmt/format.h>
#include <algorithm>
#include <functional>

#include "comm/agreement.h"
#include "core/clock.h"
#include "lm/data_parallel/parallel_model.h"
#include "lm/data_parallel/phase_watch.h"
#include "lm/plan/device_memory.h"
#include "lm/profile/trace.h"
#include "lm/state/memory.h"
#include "strobe/error.h"

namespace strobe::lm {

namespace {

// Times and loss of one step.
struct OneStep {
  ParallelStep seconds;
  double loss = 0;
  bool skipped = false;
};

StepOptions bench_step(const BenchCase& one, std::int64_t step) {
  return {.adamw = {.rate = 1e-4, .step = step}, .clip = one.clip, .needs_norm = false};
}

// Runs the warm-up and timed steps. take(step) runs one step; steps count from 1.
void run_steps(const BenchCase& one, ParallelTimes& times, const std::function<OneStep(std::int64_t)>& take) {
  for (std::int64_t step = 1; step <= one.warmup + one.steps; ++step) {
    const OneStep taken = take(step);
    times.loss = taken.loss;
    if (step <= one.warmup) continue;
    times.steps.push_back(taken.seconds);
    times.skipped += taken.skipped ? 1 : 0;
  }
}

std::string name_of(const ParallelCall& call) {
  return call.bucket < 0 ? fmt::format("{} of the norm", comm::name_of(call.kind))
                         : fmt::format("{} of bucket {}", comm::name_of(call.kind), call.bucket);
}

std::vector<ParallelSpan> spans_of(const StepRecord& record, double begin, double backward_began) {
  using Track = ParallelSpan::Track;
  std::vector<ParallelSpan> spans;
  const auto add = [&](Track track, std::string name, double from, double to, std::int64_t bytes = 0) {
    spans.push_back({track, std::move(name), from - begin, to - from, bytes});
  };
  add(Track::compute, "forward", begin, backward_began);
  add(Track::compute, "backward", backward_began, record.backward_ended);
  add(Track::compute, "optimizer", record.update_began, record.update_ended);
  for (const ParallelCall& call : record.all_calls) {
    add(Track::communication, name_of(call), call.times.began, call.times.ended, call.bytes);
  }
  return spans;
}

constexpr GradientMemory kGradients = GradientMemory::shared;

}  // namespace

std::string lacking_memory(comm::Communicator& communicator, const BenchCase& one) {
  BenchCase share = one;
  share.batch = batch_of_a_rank(one.batch, communicator.size());
  share.gradients = kGradients;
  std::string own;
  try {
    check_shared_memory(share, ranks_that_share(communicator.world(), one.execution.device));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    own = error.what();
  }
  for (const std::string& text : comm::gather_texts(communicator, own)) {
    if (!text.empty()) return text;
  }
  return {};
}

ParallelTimes time_parallel_step(comm::Communicator& communicator, const BenchCase& one,
                                 const ParallelOptions& exchange) {
  BenchCase share = one;
  share.batch = batch_of_a_rank(one.batch, communicator.size());
  const std::vector<std::int32_t> tokens = bench_tokens(one, 1), targets = bench_tokens(one, 2);
  Model model(one.shape, share.batch, dtype_of(one.precision), place_of(one),
              {.attention = one.attention,
               .gradients = kGradients,
               .optimizer = OptimizerMemory::outside,
               .recompute = one.recompute});
  model.begin(1);
  ParallelModel together(model, communicator, {.exchange = exchange});
  together.begin();
  ParallelTimes times{.buckets = static_cast<std::int64_t>(together.exchange().buckets().size()),
                      .optimizer_bytes = together.exchange().state_bytes()};
  const GpuStream* const stream = model.stream();
  times.memory.after_init = allocator_of(stream).statistics().current;
  PhaseWatch watch(stream);
  model.record(&watch);
  run_steps(one, times, [&](std::int64_t step) {
    communicator.barrier();
    watch.begin_step();
    const double begin = watch.step_began();
    const StepResult result = together.step(tokens.data(), targets.data(), bench_step(one, step));
    if (stream) stream->synchronize();  // the step ends with copy_values(), which is asynchronous
    const double whole = now_seconds() - begin;
    const StepRecord& record = together.exchange().record();
    const StepSplit split = split_of(watch, record);
    times.calls = split.calls;
    times.bytes = split.bytes;
    times.spans = spans_of(record, begin, watch.began(Phase::backward));
    return OneStep{{.whole = whole,
                    .forward = split.forward,
                    .backward = split.backward,
                    .exposed = split.exposed,
                    .hidden = split.hidden,
                    .optimizer = split.optimizer},
                   result.loss,
                   result.skipped};
  });
  model.record(nullptr);
  times.memory.before_update = watch.held;
  times.memory.after_step = allocator_of(stream).statistics().current;
  return times;
}

namespace {

// The first run launches a phase directly, the second captures its graph, and later runs replay it.
constexpr int kPhaseWarmup = 2;

OneStep timed_lone_step(Model& model, PhaseWatch& watch, const std::function<double()>& take) {
  watch.begin_step();
  const double begin = watch.step_began(), loss = take(), end = now_seconds();
  if (model.stream()) return {{.whole = end - begin}, loss};  // time_lone_phases() measures the phases
  const double backward = watch.began(Phase::backward), update = watch.began(Phase::update);
  return {{.whole = end - begin, .forward = backward - begin, .backward = update - backward, .optimizer = end - update},
          loss};
}

// Sets the phase times of each element of `steps`. On CUDA a timed step is one graph, whose phases cannot be timed.
// This function therefore runs two warm-up steps and one step per element, phase by phase.
void time_lone_phases(Model& model, std::vector<ParallelStep>& steps, const std::function<void()>& after_step) {
  std::vector<GpuEvent> events(4);
  const auto take = [&] {
    for (std::size_t i = 0; i < 3; ++i) {
      events[i].record(*model.stream());
      model.run_phase(static_cast<Phase>(i));
    }
    events[3].record(*model.stream());
    events[3].synchronize();
    after_step();
  };
  for (int run = 0; run < kPhaseWarmup; ++run) take();
  for (ParallelStep& step : steps) {
    take();
    step.forward = events[1].seconds_since(events[0]);
    step.backward = events[2].seconds_since(events[1]);
    step.optimizer = events[3].seconds_since(events[2]);
  }
}

}  // namespace

ParallelTimes time_lone_step(const BenchCase& one, const std::function<void()>& after_step) {
  PassRun pass(one);
  Model& model = pass.model();
  ParallelTimes times{.optimizer_bytes = 2 * float_bytes(parameter_count(one.shape))};
  const AllocationCounter& counter = allocator_of(model.stream());
  times.memory.after_init = counter.statistics().current;
  PhaseWatch watch(model.stream());
  if (!model.stream()) model.record(&watch);  // on CUDA most steps replay a graph, which records nothing
  run_steps(one, times, [&](std::int64_t) {
    const std::int64_t skipped = model.loss_scale().skipped;
    OneStep taken = timed_lone_step(model, watch, [&] { return pass.run(); });
    taken.skipped = model.loss_scale().skipped > skipped;
    after_step();
    return taken;
  });
  times.memory.after_step = counter.statistics().current;
  times.memory.before_update = model.stream() ? times.memory.after_step : watch.held;
  if (model.stream()) time_lone_phases(model, times.steps, after_step);
  return times;
}

// --- JSON between processes ------------------------------------------------------------------------------------------

Json to_json(const ParallelTimes& times) {
  Json steps = Json::array(), spans = Json::array();
  for (const ParallelStep& step : times.steps) {
    Json row = Json::array();
    for (const double value : {step.whole, step.forward, step.backward, step.exposed, step.hidden, step.optimizer}) {
      row.push_back(value);
    }
    steps.push_back(std::move(row));
  }
  for (const ParallelSpan& span : times.spans) {
    spans.push_back(Json::object({{"track", static_cast<int>(span.track)},
                                  {"name", span.name},
                                  {"begin", span.begin},
                                  {"seconds", span.seconds},
                                  {"bytes", span.bytes}}));
  }
  return Json::object({{"steps", std::move(steps)},
                       {"calls", times.calls},
                       {"bytes", times.bytes},
                       {"buckets", times.buckets},
                       {"optimizer_bytes", times.optimizer_bytes},
                       {"after_init", times.memory.after_init},
                       {"before_update", times.memory.before_update},
                       {"after_step", times.memory.after_step},
                       {"loss", times.loss},
                       {"skipped", times.skipped},
                       {"spans", std::move(spans)}});
}

ParallelTimes parallel_times_from(const Json& json) {
  const auto bytes = [&](const char* key) { return static_cast<std::size_t>(json.at(key).as_integer()); };
  ParallelTimes times{.calls = json.at("calls").as_integer(),
                      .bytes = json.at("bytes").as_integer(),
                      .buckets = json.at("buckets").as_integer(),
                      .optimizer_bytes = bytes("optimizer_bytes"),
                      .memory = {bytes("after_init"), bytes("before_update"), bytes("after_step")},
                      .loss = json.at("loss").as_number(),
                      .spans = {},
                      .skipped = json.at("skipped").as_integer()};
  for (const Json& row : json.at("steps").as_array()) {
    const auto at = [&](std::size_t i) { return row.as_array().at(i).as_number(); };
    times.steps.push_back({at(0), at(1), at(2), at(3), at(4), at(5)});
  }
  for (const Json& span : json.at("spans").as_array()) {
    times.spans.push_back({static_cast<ParallelSpan::Track>(span.at("track").as_integer()), span.at("name").as_string(),
                           span.at("begin").as_number(), span.at("seconds").as_number(),
                           span.at("bytes").as_integer()});
  }
  return times;
}

// --- traces ----------------------------------------------------------------------------------------------------------

namespace {

constexpr int kStepTrack = 1, kComputeTrack = 2, kCommunicationTrack = 3;
constexpr double kGap = 0.05;  // gap after a step, as a fraction of its longest duration on any rank

double end_of(const std::vector<ParallelSpan>& spans) {
  double end = 0;
  for (const ParallelSpan& span : spans) end = std::max(end, span.begin + span.seconds);
  return end;
}

}  // namespace

Json parallel_trace_json(std::span<const TracedStep> steps) {
  Json events = Json::array();
  const auto process = [](std::size_t rank) { return static_cast<int>(rank) + 1; };
  for (std::size_t rank = 0; !steps.empty() && rank < steps[0].ranks.size(); ++rank) {
    events.push_back(trace_name("process_name", process(rank), 0, "rank " + std::to_string(rank)));
    events.push_back(trace_name("thread_name", process(rank), kStepTrack, "steps"));
    events.push_back(trace_name("thread_name", process(rank), kComputeTrack, "compute"));
    events.push_back(trace_name("thread_name", process(rank), kCommunicationTrack, "communication"));
  }
  double begin = 0;
  for (const TracedStep& step : steps) {
    double longest = 0;
    for (std::size_t rank = 0; rank < step.ranks.size(); ++rank) {
      const double seconds = end_of(step.ranks[rank]);
      longest = std::max(longest, seconds);
      events.push_back(trace_span(process(rank), kStepTrack, step.name, begin, seconds));
      for (const ParallelSpan& span : step.ranks[rank]) {
        const bool call = span.track == ParallelSpan::Track::communication;
        const int track = call ? kCommunicationTrack : kComputeTrack;
        Json event = trace_span(process(rank), track, span.name, begin + span.begin, span.seconds);
        if (call) event.set("args", Json::object({{"bytes", span.bytes}}));
        events.push_back(std::move(event));
      }
    }
    begin += (1 + kGap) * longest;
  }
  return trace_of(std::move(events));
}

}  // namespace strobe::lm
