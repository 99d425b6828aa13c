// Where the time of a training step goes, operation by operation: on the CPU by the clock of the host, on CUDA by its
// kernels. `strobe lm profile` calls.
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
  double begin = 0,
         host_seconds = 0;  // begin: since the first step that is recorded, by the host; on CUDA of the launch
  double seconds = 0;       // it took: on the CPU host_seconds, on CUDA what its kernels and copies took
  double flops = 0, bytes = 0;
};

// What an operation on the CPU names of itself, by the clock of the host; inside of its time, one after the other.
struct TimedPart {
  const char* name;
  ScopeKind kind;
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
  OperationKind kind = OperationKind::matmul;
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

// --- kernels of a GPU ------------------------------------------------------------------------------------------------

// Gives each operation the seconds of its records and the profile the records, their begin counted from `begin`. Those
// with launcher 0 are nobody's. Throws Error(runtime) where a launcher is no operation.
void attribute(Profile& profile, std::vector<GpuRecord> records, double begin);

struct KernelSum {
  std::string name;
  int calls = 0;
  double seconds = 0;
  std::vector<std::string> operations;  // that launched it, each once
};

std::vector<KernelSum> sums_by_kernel(const Profile& profile);                                // the longest first
std::vector<KernelSum> sums_by_kernel(const Profile& profile, const std::string& operation);  // of that one alone

double outside_seconds(const Profile& profile);  // of records that are nobody's
double record_seconds(const Profile& profile);   // of all: operations' and nobody's
double busy_seconds(const Profile& profile);     // in which at least one record ran: each moment counts once

// A kernel's name for a table, without its type, namespaces and parameters and cut to `most` bytes:
// "adamw_kernel<__nv_bfloat16>".
std::string short_kernel_name(std::string_view name, std::size_t most = 60);

// --- matmuls, with attention's apart from those of linear layers -----------------------------------------------------

// True unless the profile has attention's softmax apart: on the CPU as a part, on a GPU as a kernel.
bool is_attention_fused(const Profile& profile);

// Seconds of all recorded steps, by class.
struct MatmulTime {
  double linear = 0;             // matmuls of linear layers, the unembedding included
  double attention_matmuls = 0;  // Q K^T, P V and their gradients; 0 if attention is fused
  double attention_rest = 0;     // softmax, copies, gaps between parts; the whole of attention if it is fused
  double other = 0;

  double all() const { return linear + attention_matmuls + attention_rest + other; }
  double linear_share() const;  // fraction of all(); 0 if all() is 0
  // Matmuls with those of attention, a share of all(). A fused kernel has no time of its own for its matmuls: it counts
  // as a whole, so that the share is an upper bound.
  double share_with_attention(bool is_fused) const;
};

MatmulTime matmul_time(const Profile& profile, std::initializer_list<Phase> phases);

}  // namespace strobe::lm
