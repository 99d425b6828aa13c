// Where the time of a training step goes, operation by operation, by the clock of the host. `strobe lm profile` calls.
#pragma once

#include <string>
#include <vector>

#include "lm/operation.h"
#include "lm/step_bench.h"

namespace strobe::lm {

inline constexpr int kKinds = 7, kPhases = 3;
const char* name_of(OperationKind kind);  // "matrix products"
const char* name_of(Phase phase);

struct TimedOperation {
  std::string name, of;
  OperationKind kind = OperationKind::product;
  Phase phase = Phase::forward;
  double begin = 0, seconds = 0;  // begin: since the first step that is recorded
  double flops = 0, bytes = 0;
};

struct TimedStep {
  double begin = 0, seconds = 0;
};

struct Profile {
  std::vector<TimedStep> steps;            // recorded, by the wall clock
  std::vector<TimedOperation> operations;  // of all of them, in order
  double plain_seconds = 0;                // of a step that is not recorded, the mean of as many
};

// one.warmup steps, one.steps that are recorded, and as many that are not. Throws Error(unsupported) on CUDA, where a
// step is one graph and the host sees no operation.
Profile profile_step(const BenchCase& one);

// Operations that were added up.
struct OperationSum {
  std::string name;
  OperationKind kind = OperationKind::product;
  int calls = 0;
  double seconds = 0, flops = 0, bytes = 0;

  void add(const TimedOperation& one);
};

std::vector<OperationSum> sums_by_name(const Profile& profile);  // the longest first
std::vector<OperationSum> sums_by_kind(const Profile& profile);  // likewise; those that occur
double seconds_of(const Profile& profile, Phase phase, OperationKind kind);
double seconds_of(const Profile& profile, Phase phase);
double seconds_of(const Profile& profile);

}  // namespace strobe::lm
