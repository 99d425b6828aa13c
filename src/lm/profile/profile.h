// Measures the time of a training step per operation: on the CPU with the host's clock, on CUDA by tracing
// kernels. `strobe lm profile` uses it.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "device/host/profile_scope.h"
#include "device/kernel_trace.h"
#include "lm/models/operation.h"
#include "lm/profile/step_bench.h"

namespace strobe::lm {

inline constexpr int kKinds = 7, kPhases = 3;
const char* name_of(OperationKind kind);  // "matmul"
const char* name_of(Phase phase);

struct TimedOperation {
  std::string name, of;
  OperationKind kind = OperationKind::matmul;
  Phase phase = Phase::forward;
  // On the host's clock; begin counts from the first recorded step. On CUDA this is the time of the launches.
  double begin = 0, host_seconds = 0;
  double seconds = 0;  // on the CPU host_seconds, on CUDA the sum over its kernels and copies
  double flops = 0, bytes = 0;
};

// A profiling scope inside an operation on the CPU, on the host's clock. Scopes of an operation do not overlap.
struct TimedScope {
  const char* name;
  ScopeKind kind;
  std::size_t operation;  // index in Profile::operations
  double begin = 0, seconds = 0;
  double flops = 0;  // matmul: its equal share of the operation's FLOPs
};

struct TimedStep {
  double begin = 0, seconds = 0;
  bool skipped = false;  // fp16: the gradient overflowed, so nothing was updated
};

struct Profile {
  Device device = Device::cpu;
  std::vector<TimedStep> steps;            // recorded steps, on the host's clock
  std::vector<TimedOperation> operations;  // operations of all recorded steps, in order
  std::vector<TimedScope> scopes;          // in order of operations; empty if attention is fused
  double plain_seconds = 0;                // mean of steps that are not recorded; on CUDA each replays a graph
  // The fields below are set on CUDA only.
  double direct_seconds = 0;       // mean of unrecorded steps launched kernel by kernel, like the recorded ones
  std::vector<GpuRecord> records;  // sorted by begin, in seconds since the first step; launcher: operation index + 1
};

// Runs warm-up steps, one.steps unrecorded steps, and one.steps recorded ones. On CUDA one.steps more unrecorded steps
// run without a graph. Throws Error(unsupported) if GPU kernels cannot be traced.
Profile profile_step(const BenchCase& one);

// Sums over several operations.
struct OperationSum {
  std::string name;
  OperationKind kind = OperationKind::matmul;
  int calls = 0;
  double seconds = 0, flops = 0, bytes = 0;

  void add(const TimedOperation& one);
};

std::vector<OperationSum> sums_by_name(const Profile& profile);  // the longest first
std::vector<OperationSum> sums_by_kind(const Profile& profile);  // the longest first; only kinds that occur
// Sums matmuls of linear layers by function and matrix, over all layers, with names such as "linear backward weight
// feed_forward.w2". The longest come first.
std::vector<OperationSum> sums_by_matrix(const Profile& profile);
// Sums the profiling scopes in operations of this name, by the scope's name, the longest first.
std::vector<OperationSum> sums_by_scope(const Profile& profile, const std::string& operation);
double seconds_of(const Profile& profile, Phase phase, OperationKind kind);
double seconds_of(const Profile& profile, Phase phase);
double seconds_of(const Profile& profile);

// --- kernels of a GPU ------------------------------------------------------------------------------------------------

// Moves GPU records to the profile, makes their begin times relative to `begin`, and adds each record's seconds to the
// operation that launched it. Records with launcher 0 belong to no operation. Throws Error(runtime) if a launcher is
// not an operation.
void attribute(Profile& profile, std::vector<GpuRecord> records, double begin);

struct KernelSum {
  std::string name;
  int calls = 0;
  double seconds = 0;
  std::vector<std::string> operations;  // names of operations that launched it, each once
};

// Sums GPU records by kernel, the longest first: all records, or those that operations of this name launched.
std::vector<KernelSum> sums_by_kernel(const Profile& profile);
std::vector<KernelSum> sums_by_kernel(const Profile& profile, const std::string& operation);

double outside_seconds(const Profile& profile);  // sum over the records that belong to no operation
double record_seconds(const Profile& profile);   // sum over all records
double busy_seconds(const Profile& profile);     // time in which at least one record ran; overlaps count once

// Returns a kernel's name for a table, such as "adamw_kernel<__nv_bfloat16>": without return type, namespaces and
// parameters, and cut to `most` bytes.
std::string short_kernel_name(std::string_view name, std::size_t most = 60);

// --- matmuls of linear layers and of attention -----------------------------------------------------------------------

// Returns false if the profile shows the softmax of attention separately: on the CPU as a profiling scope, on a GPU as
// a kernel.
bool is_attention_fused(const Profile& profile);

// Seconds of all recorded steps by kind of work.
struct MatmulTime {
  double linear = 0;             // matmuls of linear layers, including the unembedding
  double attention_matmuls = 0;  // Q K^T, P V and their gradients; 0 if attention is fused
  double attention_rest = 0;     // softmax, copies, gaps between scopes; all of attention if it is fused
  double other = 0;

  double all() const { return linear + attention_matmuls + attention_rest + other; }
  double linear_share() const;  // fraction of all(); 0 if all() is 0
  // Returns the fraction of all() for matmuls, including those of attention. A fused kernel has no separate time for
  // its matmuls and counts as a whole, so the result is then an upper bound.
  double share_with_attention(bool is_fused) const;
};

MatmulTime matmul_time(const Profile& profile, std::initializer_list<Phase> phases);

}  // namespace strobe::lm
