// Implements profile_step(). On the CPU it reads the clock before and after each operation and each profiling scope of
// attention. On CUDA a trace records the kernels that each operation launches.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "core/clock.h"
#include "core/fail.h"
#include "device/gpu_range.h"
#include "lm/profile/profile.h"

namespace strobe::lm {

namespace {

// Times each operation and attention's profiling scopes on the host. The cost of recording an operation is outside its
// duration. The cost of recording a scope is outside the scope's duration but inside its operation's.
class Timer : public Recorder, public ProfileSink {
 public:
  Timer(Model& model, double begin) : begin_(begin) {
    for (const Activation& one : model.plan().table) bytes_.push_back(static_cast<double>(one.bytes()));
  }

  void begin(const Operation& operation) override {
    TimedOperation one{.name = operation.name,
                       .of = operation.of,
                       .kind = operation.kind,
                       .phase = operation.phase,
                       .flops = operation.flops,
                       .bytes = static_cast<double>(operation.other_bytes)};
    for (const auto* tensors : {&operation.reads, &operation.writes}) {
      for (const TensorUse& use : *tensors) {
        one.bytes += use.bytes > 0 ? static_cast<double>(use.bytes) : bytes_.at(use.tensor);
      }
    }
    operations.push_back(std::move(one));
    first_scope_ = scopes.size();
    if (operation.kind == OperationKind::attention) profile_sink = this;
    operations.back().begin = now_seconds() - begin_;
  }

  void end() override {
    TimedOperation& one = operations.back();
    one.host_seconds = now_seconds() - begin_ - one.begin;
    one.seconds = one.host_seconds;
    profile_sink = nullptr;
    share_flops(one.flops);
  }

  void begin_scope(const char* name, ScopeKind kind) override {
    scopes.push_back({.name = name, .kind = kind, .operation = operations.size() - 1});
    scopes.back().begin = now_seconds() - begin_;
  }
  void end_scope() override { scopes.back().seconds = now_seconds() - begin_ - scopes.back().begin; }

  std::vector<TimedOperation> operations;
  std::vector<TimedScope> scopes;

 private:
  // Splits an operation's FLOPs equally among its matmuls. This is exact for attention, whose matmuls all have the same
  // size.
  void share_flops(double flops) {
    const auto begin = scopes.begin() + static_cast<std::ptrdiff_t>(first_scope_);
    const auto is_matmul = [](const TimedScope& scope) { return scope.kind == ScopeKind::matmul; };
    const auto matmuls = static_cast<double>(std::count_if(begin, scopes.end(), is_matmul));
    std::for_each(begin, scopes.end(),
                  [&](TimedScope& scope) { scope.flops = is_matmul(scope) ? flops / matmuls : 0; });
  }

  double begin_;
  std::size_t first_scope_ = 0;  // index of the current operation's first scope
  std::vector<double> bytes_;    // per tensor in the plan's table
};

// Marks phases and operations as named ranges for external profilers.
class Ranges : public Recorder {
 public:
  void begin(const Operation& operation) override {
    if (phase_ != operation.phase) end_phase();
    if (!phase_range_) phase_range_.emplace(name_of(operation.phase));
    phase_ = operation.phase;
    range_.emplace(std::string(operation.name) + " " + operation.of);
  }
  void end() override { range_.reset(); }
  void end_phase() { phase_range_.reset(); }

 private:
  Phase phase_ = Phase::forward;
  std::optional<GpuRange> phase_range_, range_;
};

// Times each operation, marks it as a range, and passes its index + 1 to the trace as the launcher of kernels.
class Launcher : public Recorder {
 public:
  Launcher(Model& model, double begin, const KernelTrace& trace) : timer_(model, begin), trace_(trace) {}

  void begin(const Operation& operation) override {
    ranges_.begin(operation);
    trace_.enter(timer_.operations.size() + 1);
    timer_.begin(operation);
  }

  void end() override {
    timer_.end();
    timer_.operations.back().seconds = 0;  // attribute() adds the kernels' seconds
    trace_.leave();
    ranges_.end();
  }

  void end_step() { ranges_.end_phase(); }
  std::vector<TimedOperation> take() { return std::move(timer_.operations); }

 private:
  Timer timer_;
  Ranges ranges_;
  const KernelTrace& trace_;
};

double mean_seconds(PassRun& pass, int runs) {
  const double begin = now_seconds();
  for (int run = 0; run < runs; ++run) pass.run();
  return (now_seconds() - begin) / runs;
}

// Calls `after` at the end of each step.
template <class After>
std::vector<TimedStep> timed_steps(PassRun& pass, int runs, double begin, After after) {
  std::vector<TimedStep> steps;
  for (int run = 0; run < runs; ++run) {
    const GpuRange range("step " + std::to_string(run + 1));
    const std::int64_t skipped = pass.model().loss_scale().skipped;
    const double step = now_seconds() - begin;
    pass.run();
    steps.push_back({step, now_seconds() - begin - step, pass.model().loss_scale().skipped > skipped});
    after();
  }
  return steps;
}

Profile profile_on_host(PassRun& pass, const BenchCase& one) {
  for (int run = 0; run < one.warmup; ++run) pass.run();
  Profile profile;
  const double begin = now_seconds();
  Timer timer(pass.model(), begin);
  pass.model().record(&timer);
  profile.steps = timed_steps(pass, one.steps, begin, [] {});
  pass.model().record(nullptr);
  profile.operations = std::move(timer.operations);
  profile.scopes = std::move(timer.scopes);
  profile.plain_seconds = mean_seconds(pass, one.steps);
  return profile;
}

// Runs a step with named ranges but without a trace. An external profiler that prevents the use of CUPTI still sees the
// ranges of this step.
void run_named(PassRun& pass) {
  Ranges ranges;
  pass.model().record(&ranges);
  pass.run();
  pass.model().record(nullptr);
}

// Profiles on CUDA. Unrecorded steps run first, since a trace may slow the driver down for the rest of the process.
Profile profile_on_gpu(PassRun& pass, const BenchCase& one) {
  constexpr int kUntilReplayed = 2;  // runs before a graph is replayed: the first is direct, the second is captured
  constexpr std::uint64_t kWarmupLauncher = std::numeric_limits<std::uint64_t>::max();
  Model& model = pass.model();
  Profile profile;
  profile.device = Device::cuda;
  for (int run = 0; run < std::max(one.warmup, kUntilReplayed); ++run) pass.run();
  profile.plain_seconds = mean_seconds(pass, one.steps);
  model.set_launches(Launches::direct);
  run_named(pass);
  profile.direct_seconds = mean_seconds(pass, one.steps);

  KernelTrace trace;
  trace.enter(kWarmupLauncher);
  pass.run();  // warm-up: CUPTI initialises its data for each kernel at the kernel's first launch
  trace.leave();
  const double begin = now_seconds();
  Launcher launcher(model, begin, trace);
  model.record(&launcher);
  profile.steps = timed_steps(pass, one.steps, begin, [&] { launcher.end_step(); });
  model.record(nullptr);
  profile.operations = launcher.take();
  std::vector<GpuRecord> records = trace.finish();
  std::erase_if(records, [](const GpuRecord& record) { return record.launcher == kWarmupLauncher; });
  attribute(profile, std::move(records), begin);
  return profile;
}

}  // namespace

Profile profile_step(const BenchCase& one) {
  const bool is_on_gpu = one.execution.device == Device::cuda;
  if (is_on_gpu) {
    const std::string reason = kernel_trace_refusal();
    if (!reason.empty()) fail(ErrorCode::unsupported, "lm profile: --device cuda: {}; valid: --device cpu", reason);
  }
  PassRun pass(one);
  return is_on_gpu ? profile_on_gpu(pass, one) : profile_on_host(pass, one);
}

}  // namespace strobe::lm
