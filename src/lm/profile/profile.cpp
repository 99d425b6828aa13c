// Computes sums of a profile's operations by name, kind, matrix and profiling scope.
#include "lm/profile/profile.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace strobe::lm {

namespace {

// Sums operations with equal keys, the longest first; an empty key excludes an operation.
template <class Key>
std::vector<OperationSum> sums_by(const std::vector<TimedOperation>& operations, Key key) {
  std::map<std::string, OperationSum> sums;
  for (const TimedOperation& one : operations) {
    const std::string name = key(one);
    if (name.empty()) continue;
    OperationSum& sum = sums[name];
    sum.name = name;
    sum.add(one);
  }
  std::vector<OperationSum> sorted;
  for (auto& [name, sum] : sums) sorted.push_back(std::move(sum));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const OperationSum& a, const OperationSum& b) { return a.seconds > b.seconds; });
  return sorted;
}

// Removes the layer prefix: returns "attention.o" for "layers.3.attention.o".
std::string_view matrix_of(std::string_view of) {
  constexpr std::string_view kLayers = "layers.";
  if (!of.starts_with(kLayers)) return of;
  return of.substr(of.find('.', kLayers.size()) + 1);
}

template <class Counts>
double seconds_where(const Profile& profile, Counts counts) {
  double seconds = 0;
  for (const TimedOperation& one : profile.operations) seconds += counts(one) ? one.seconds : 0;
  return seconds;
}

}  // namespace

const char* name_of(OperationKind kind) {
  static constexpr const char* kNames[kKinds] = {"matmul", "attention", "norms", "elementwise",
                                                 "loss",   "optimizer", "copies"};
  return kNames[static_cast<int>(kind)];
}

const char* name_of(Phase phase) {
  static constexpr const char* kNames[kPhases] = {"forward", "backward", "update"};
  return kNames[static_cast<int>(phase)];
}

void OperationSum::add(const TimedOperation& one) {
  kind = one.kind;
  ++calls;
  seconds += one.seconds;
  flops += one.flops;
  bytes += one.bytes;
}

std::vector<OperationSum> sums_by_name(const Profile& profile) {
  return sums_by(profile.operations, [](const TimedOperation& one) { return one.name; });
}

std::vector<OperationSum> sums_by_kind(const Profile& profile) {
  return sums_by(profile.operations, [](const TimedOperation& one) { return std::string(name_of(one.kind)); });
}

std::vector<OperationSum> sums_by_matrix(const Profile& profile) {
  return sums_by(profile.operations, [](const TimedOperation& one) {
    return one.kind == OperationKind::matmul ? one.name + " " + std::string(matrix_of(one.of)) : "";
  });
}

std::vector<OperationSum> sums_by_scope(const Profile& profile, const std::string& operation) {
  std::vector<TimedOperation> scopes;
  for (const TimedScope& scope : profile.scopes) {
    const TimedOperation& whole = profile.operations[scope.operation];
    if (whole.name != operation) continue;
    scopes.push_back({.name = scope.name, .of = whole.of, .kind = whole.kind, .phase = whole.phase});
    scopes.back().seconds = scope.seconds;
    scopes.back().flops = scope.flops;
  }
  return sums_by(scopes, [](const TimedOperation& one) { return one.name; });
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

namespace {

bool is_softmax(std::string_view name) { return name.find("softmax") != std::string_view::npos; }

const TimedOperation* launcher_of(const Profile& profile, const GpuRecord& record) {
  return record.launcher == 0 ? nullptr : &profile.operations[record.launcher - 1];
}

// Returns true for a kernel outside namespace strobe. In unfused attention these are the matmuls of cuBLAS; softmax and
// copies are kernels of Strobe.
bool is_library_kernel(const GpuRecord& record) {
  return record.kind == GpuRecord::Kind::kernel && record.name.find("strobe::") == std::string::npos;
}

double share(double some, double all) { return all > 0 ? some / all : 0; }

}  // namespace

double MatmulTime::linear_share() const { return share(linear, all()); }

double MatmulTime::share_with_attention(bool is_fused) const {
  return share(linear + attention_matmuls + (is_fused ? attention_rest : 0), all());
}

bool is_attention_fused(const Profile& profile) {
  for (const TimedScope& scope : profile.scopes) {
    if (is_softmax(scope.name)) return false;
  }
  return std::ranges::none_of(profile.records, [&](const GpuRecord& record) {
    const TimedOperation* launcher = launcher_of(profile, record);
    return launcher && launcher->kind == OperationKind::attention && is_softmax(record.name);
  });
}

MatmulTime matmul_time(const Profile& profile, std::initializer_list<Phase> phases) {
  MatmulTime time;
  const auto counts = [&](const TimedOperation& one) { return std::ranges::find(phases, one.phase) != phases.end(); };
  for (const TimedOperation& one : profile.operations) {
    if (!counts(one)) continue;
    double& sum = one.kind == OperationKind::matmul      ? time.linear
                  : one.kind == OperationKind::attention ? time.attention_rest
                                                         : time.other;
    sum += one.seconds;
  }
  if (is_attention_fused(profile)) return time;
  const auto move = [&](double seconds) {
    time.attention_matmuls += seconds;
    time.attention_rest -= seconds;
  };
  for (const TimedScope& scope : profile.scopes) {
    if (scope.kind == ScopeKind::matmul && counts(profile.operations[scope.operation])) move(scope.seconds);
  }
  for (const GpuRecord& record : profile.records) {
    const TimedOperation* launcher = launcher_of(profile, record);
    if (!launcher || launcher->kind != OperationKind::attention || !counts(*launcher)) continue;
    if (is_library_kernel(record)) move(record.seconds);
  }
  return time;
}

}  // namespace strobe::lm
