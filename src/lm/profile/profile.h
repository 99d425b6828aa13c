// Where the time of a training step goes, operation by operation: on the CPU by the clock of the host, on CUDA by its
// kernels. `strobe lm profile` calls.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "device/host/parts.h"
#include "device/kernel_trace.h"
#include "lm/models/operation.h"
#include "lm/profile/step_bench.h"

namespace strobe::lm {

inline constexpr int kKinds = 7, kPhases = 3;
const char* name_of(OperationKind kind);  // "matmul"
const char* name_of(Phase phase);

struct TimedOperation {
  std::string name, of;
  OperationKind kind = OperationKind::product;
  Phase phase = Phase::forward;
  double begin = 0,
         host_seconds = 0;  // begin: since the first step that is recorded, by the host; on CUDA of the launch
  double seconds = 0;       // it took: on the CPU host_seconds, on CUDA what its kernels and copies took
  double flops = 0, bytes = 0;
};

// What an operation on the CPU names of itself, by the clock of the host; inside of its time, one after the other.
struct TimedPart {
  const char* name;
  PartKind kind;
  std::size_t operation;  // its place
  double begin = 0, seconds = 0;
  double flops = 0;  // the operation's, in equal shares of its products
};

struct TimedStep {
  double begin = 0, seconds = 0;
  bool skipped = false;  // fp16: its gradient overflowed, nothing was updated
};

struct Profile {
  Device device = Device::cpu;
  std::vector<TimedStep> steps;            // recorded, by the wall clock
  std::vector<TimedOperation> operations;  // of all of them, in order
  std::vector<TimedPart> parts;  // of operations, in order; none where attention's products and softmax are fused
  double plain_seconds = 0;      // of a step that is not recorded, the mean of as many; on CUDA it is a graph
  // On CUDA alone:
  double direct_seconds = 0;       // likewise, of a step that is launched kernel by kernel, as those that are recorded
  std::vector<GpuRecord> records;  // by begin, which is since the first step; launcher: an operation's place, from 1
};

// one.warmup steps, one.steps that are recorded, and as many that are not. Throws Error(unsupported) where kernels of a
// GPU cannot be traced.
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
// Likewise, matmuls of linear layers by function and matrix over all layers: "linear backward weight feed_forward.w2".
std::vector<OperationSum> sums_by_matrix(const Profile& profile);
std::vector<OperationSum> sums_by_part(const Profile& profile, const std::string& operation);  // likewise, of that one
double seconds_of(const Profile& profile, Phase phase, OperationKind kind);
double seconds_of(const Profile& profile, Phase phase);
double seconds_of(const Profile& profile);

}  // namespace strobe::lm
