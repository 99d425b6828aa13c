#include "lm/profile/profile.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace strobe::lm {

namespace {

// Those whose key is empty do not count.
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

// "layers.3.attention.o" without its layer.
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
    return one.kind == OperationKind::product ? one.name + " " + std::string(matrix_of(one.of)) : "";
  });
}

std::vector<OperationSum> sums_by_part(const Profile& profile, const std::string& operation) {
  std::vector<TimedOperation> parts;
  for (const TimedPart& part : profile.parts) {
    const TimedOperation& whole = profile.operations[part.operation];
    if (whole.name != operation) continue;
    parts.push_back({.name = part.name, .of = whole.of, .kind = whole.kind, .phase = whole.phase});
    parts.back().seconds = part.seconds;
    parts.back().flops = part.flops;
  }
  return sums_by(parts, [](const TimedOperation& one) { return one.name; });
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
