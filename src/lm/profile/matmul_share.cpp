#include "lm/profile/matmul_share.h"

#include <algorithm>
#include <string_view>

namespace strobe::lm {

namespace {

bool is_softmax(std::string_view name) { return name.find("softmax") != std::string_view::npos; }

const TimedOperation* launcher_of(const Profile& profile, const GpuRecord& record) {
  return record.launcher == 0 ? nullptr : &profile.operations[record.launcher - 1];
}

// Attention without fusion launches its own kernels for softmax and copies, and a library's for matmuls.
bool is_library_kernel(const GpuRecord& record) {
  return record.kind == GpuRecord::Kind::kernel && record.name.find("strobe::") == std::string::npos;
}

double share(double part, double all) { return all > 0 ? part / all : 0; }

}  // namespace

double MatmulTime::linear_share() const { return share(linear, all()); }

double MatmulTime::share_with_attention(bool is_fused) const {
  return share(linear + attention_matmuls + (is_fused ? attention_rest : 0), all());
}

bool is_attention_fused(const Profile& profile) {
  for (const TimedPart& part : profile.parts) {
    if (is_softmax(part.name)) return false;
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
    double& sum = one.kind == OperationKind::product     ? time.linear
                  : one.kind == OperationKind::attention ? time.attention_rest
                                                         : time.other;
    sum += one.seconds;
  }
  if (is_attention_fused(profile)) return time;
  const auto move = [&](double seconds) {
    time.attention_matmuls += seconds;
    time.attention_rest -= seconds;
  };
  for (const TimedPart& part : profile.parts) {
    if (part.kind == PartKind::product && counts(profile.operations[part.operation])) move(part.seconds);
  }
  for (const GpuRecord& record : profile.records) {
    const TimedOperation* launcher = launcher_of(profile, record);
    if (!launcher || launcher->kind != OperationKind::attention || !counts(*launcher)) continue;
    if (is_library_kernel(record)) move(record.seconds);
  }
  return time;
}

}  // namespace strobe::lm
