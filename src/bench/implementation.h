// Interface of a measured implementation: a kernel of the library or a third-party implementation (a peer).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/case.h"
#include "core/json.h"

namespace strobe::bench {

class PythonChild;

enum class Status { ok, oom, unsupported, wrong, timeout, crashed };

constexpr const char* name_of(Status status) {
  switch (status) {
    case Status::ok: return "ok";
    case Status::oom: return "oom";
    case Status::unsupported: return "unsupported";
    case Status::wrong: return "wrong";
    case Status::timeout: return "timeout";
    case Status::crashed: return "crashed";
  }
  return "unknown";
}

// Requested and free bytes of a failed allocation; empty if unknown.
struct MemoryShortage {
  std::optional<std::int64_t> asked{}, free{};
};

// Failure of one implementation. The runner records it in the implementation's row and continues with the others.
class ImplementationError : public Error {
 public:
  ImplementationError(Status status, const std::string& what, MemoryShortage memory = {})
      : Error(ErrorCode::runtime, what), status_(status), memory_(memory) {}
  Status status() const { return status_; }
  MemoryShortage memory() const { return memory_; }

 private:
  Status status_;
  MemoryShortage memory_;
};

enum class Region { forward, backward, both };  // both: forward and backward in one timed region
inline constexpr Region kRegions[] = {Region::forward, Region::backward, Region::both};
constexpr const char* name_of(Region region) {
  switch (region) {
    case Region::forward: return "forward";
    case Region::backward: return "backward";
    case Region::both: return "forward_backward";
  }
  return "unknown";
}

// Outputs of the last calls in host memory; null if the implementation does not provide them.
struct Results {
  ConstView o, dq, dk, dv;
  const float* lse = nullptr;
  ConstView dbias{};
  ConstView dsinks{};  // [1, 1, 1, heads]
};

class Implementation {
 public:
  virtual ~Implementation() = default;

  virtual std::string name() const = 0;  // as in result rows: "flash2", "torch-sdpa"

  // Values of "kernel" and "configuration" in the result row; valid after prepare().
  virtual std::string kernel() const = 0;
  virtual std::string configuration() const = 0;

  // Bytes of all tensors and workspace of a run; empty if unknown before the run.
  // Throws Error(unsupported) with the reason if the case is not supported.
  virtual std::optional<std::int64_t> predicted_bytes(const AttentionCase& one) = 0;

  // Bytes that must be free before the run, including buffers of the benchmark; by default predicted_bytes(), or 0 if
  // unknown. Throws as predicted_bytes() does.
  virtual std::int64_t needed_bytes(const AttentionCase& one) { return predicted_bytes(one).value_or(0); }

  // True if dropout uses another mask than the library's, so that outputs are checked without dropout.
  virtual bool has_own_dropout_mask() const { return false; }

  // Allocates the tensors and workspace of the case and fills outputs with NaN; release() frees them. `inputs` must
  // stay valid until release().
  virtual void prepare(const AttentionCase& one, const Inputs& inputs) = 0;
  virtual void release() = 0;

  // Runs the region once and returns its time in seconds. A backward reads the outputs of the last forward.
  virtual double time(Region region) = 0;

  virtual Results results() = 0;

  // Peak bytes since prepare(), inputs included; empty if the implementation cannot measure memory.
  virtual std::optional<std::int64_t> metered_bytes() = 0;

  // Bytes saved for backward: the inputs and the tensors that forward keeps. Frees everything else, so release() must
  // be the next call. Empty if the implementation cannot measure memory.
  virtual std::optional<std::int64_t> saved_bytes() { return std::nullopt; }

  // Waits until the implementation's threads stop spinning, so they do not disturb the next measurement.
  virtual void settle() = 0;
};

// Canonical names that make_implementation accepts: the kernels, then the peers.
std::vector<std::string> implementation_names();

bool is_peer(std::string_view name);  // third-party implementations: torch-*, fa3, cudnn, onednn

// Returns the canonical name; case is ignored, and "Pytorch" is an alias of "standard". Throws Error(invalid_argument)
// with the valid names.
std::string canonical_name(std::string_view name);

struct ImplementationOptions {
  Device device = Device::cpu;
  std::shared_ptr<PythonChild> python{};  // Python process shared by torch-* and fa3; null: each starts its own
};
std::unique_ptr<Implementation> make_implementation(const std::string& name, const ImplementationOptions& options);

// For implementations that run a kernel of the library:

// Returns explain()'s entry for this kernel and pass: configuration and workspace bytes. Throws Error(unsupported) with
// the reason if the kernel does not support the case.
Verdict verdict_of(const std::string& kernel, const AttentionCase& one, Pass pass);

// Workspace bytes: the larger of forward and, if the case has one, backward.
std::size_t workspace_of(const std::string& kernel, const AttentionCase& one);

// Bytes of all tensors and workspace of a run of the case.
std::int64_t held_bytes(const std::string& kernel, const AttentionCase& one);

}  // namespace strobe::bench
