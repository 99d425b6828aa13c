#include "lm/profile.h"

#include <algorithm>
#include <map>

#include "core/fail.h"
#include "measure/clock.h"

namespace strobe::lm {

namespace {

// Times each operation; what is noted about it lies outside of its time.
class Timer : public Recorder {
 public:
  Timer(Model& model, double begin) : begin_(begin) {
    for (const Activation& one : model.plan().table) bytes_[one.first] = static_cast<double>(one.bytes());
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
        one.bytes += use.bytes > 0 ? static_cast<double>(use.bytes) : bytes_.at(use.at);
      }
    }
    operations.push_back(std::move(one));
    operations.back().begin = now_seconds() - begin_;
  }

  void end() override {
    TimedOperation& one = operations.back();
    one.seconds = now_seconds() - begin_ - one.begin;
  }

  std::vector<TimedOperation> operations;

 private:
  double begin_;
  std::map<std::size_t, double> bytes_;  // of the plan's tensors, by where they begin
};

template <class Key>
std::vector<OperationSum> sums_by(const Profile& profile, Key key) {
  std::map<std::string, OperationSum> sums;
  for (const TimedOperation& one : profile.operations) {
    OperationSum& sum = sums[key(one)];
    sum.name = key(one);
    sum.add(one);
  }
  std::vector<OperationSum> sorted;
  for (auto& [name, sum] : sums) sorted.push_back(std::move(sum));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const OperationSum& a, const OperationSum& b) { return a.seconds > b.seconds; });
  return sorted;
}

template <class Counts>
double seconds_where(const Profile& profile, Counts counts) {
  double seconds = 0;
  for (const TimedOperation& one : profile.operations) seconds += counts(one) ? one.seconds : 0;
  return seconds;
}

}  // namespace

const char* name_of(OperationKind kind) {
  static constexpr const char* kNames[kKinds] = {"matrix products", "attention", "norms", "elementwise", "loss",
                                                 "optimizer",       "copies"};
  return kNames[static_cast<int>(kind)];
}

const char* name_of(Phase phase) {
  static constexpr const char* kNames[kPhases] = {"forward", "backward", "update"};
  return kNames[static_cast<int>(phase)];
}

Profile profile_step(const BenchCase& one) {
  if (one.place.device == Device::cuda) {
    fail(ErrorCode::unsupported,
         "lm profile: on CUDA a step is one graph, whose operations the host does not see; valid: --device cpu");
  }
  PassRun pass(one, GradientMemory::shared);
  for (int run = 0; run < one.warmup; ++run) pass.run();
  Profile profile;
  const double begin = now_seconds();
  Timer timer(pass.model(), begin);
  pass.model().record(&timer);
  for (int run = 0; run < one.steps; ++run) {
    const double step = now_seconds() - begin;
    pass.run();
    profile.steps.push_back({step, now_seconds() - begin - step});
  }
  pass.model().record(nullptr);
  profile.operations = std::move(timer.operations);
  const double plain = now_seconds();
  for (int run = 0; run < one.steps; ++run) pass.run();
  profile.plain_seconds = (now_seconds() - plain) / one.steps;
  return profile;
}

void OperationSum::add(const TimedOperation& one) {
  kind = one.kind;
  ++calls;
  seconds += one.seconds;
  flops += one.flops;
  bytes += one.bytes;
}

std::vector<OperationSum> sums_by_name(const Profile& profile) {
  return sums_by(profile, [](const TimedOperation& one) { return one.name; });
}

std::vector<OperationSum> sums_by_kind(const Profile& profile) {
  return sums_by(profile, [](const TimedOperation& one) { return std::string(name_of(one.kind)); });
}

double seconds_of(const Profile& profile, Phase phase, OperationKind kind) {
  return seconds_where(profile, [&](const TimedOperation& one) { return one.phase == phase && one.kind == kind; });
}

double seconds_of(const Profile& profile, Phase phase) {
  return seconds_where(profile, [&](const TimedOperation& one) { return one.phase == phase; });
}

double seconds_of(const Profile& profile) {
  return seconds_where(profile, [](const TimedOperation&) { return true; });
}

}  // namespace strobe::lm
