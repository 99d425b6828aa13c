// What the runner measures: one of the library's kernels, or a peer. All give outputs for the
// correctness gate and the time of one call.
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

// Bytes requested and bytes free when memory ran out; empty if unknown.
struct MemoryShortage {
  std::optional<std::int64_t> asked{}, free{};
};

// A failure of one implementation that costs its row, not the run.
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

enum class Region { forward, backward, both };  // both: forward and backward as one timed region
inline constexpr Region kRegions[] = {Region::forward, Region::backward, Region::both};
constexpr const char* name_of(Region region) {
  switch (region) {
    case Region::forward: return "forward";
    case Region::backward: return "backward";
    case Region::both: return "forward_backward";
  }
  return "unknown";
}

// Outputs of the last calls; absent where the implementation does not give them.
struct Results {
  ConstView o, dq, dk, dv;
  const float* lse = nullptr;
  ConstView dbias{};
  ConstView dsinks{};  // [1, 1, 1, heads]
};

class Implementation {
 public:
  virtual ~Implementation() = default;

  virtual std::string name() const = 0;  // of the row: "flash2", "torch-sdpa"

  // "kernel" and "configuration" of the row, known once prepared.
  virtual std::string kernel() const = 0;
  virtual std::string configuration() const = 0;

  // Bytes of all tensors and workspace that a run will hold, where it can be told beforehand.
  // Throws Error(unsupported) with the reason where the case cannot be run.
  virtual std::optional<std::int64_t> predicted_bytes(const Case& one) = 0;

  // Bytes that must be free before it is started: those, or a lower bound. Throws likewise.
  virtual std::int64_t needed_bytes(const Case& one) { return predicted_bytes(one).value_or(0); }

  // Takes what it needs for the case, outputs poisoned with NaN; release gives it back. The inputs stay the caller's.
  virtual void prepare(const Case& one, const Inputs& inputs) = 0;
  virtual void release() = 0;

  // Runs the region once and returns its seconds. A backward uses the outputs of the last forward.
  virtual double time(Region region) = 0;

  virtual Results results() = 0;

  // Most bytes held at once since prepare, inputs included; empty where there is no meter.
  virtual std::optional<std::int64_t> metered_bytes() = 0;

  // Bytes held between a forward and its backward: the inputs and what the forward leaves for it. All else is given
  // back for this, so that release() must be the next call. Empty where there is no meter.
  virtual std::optional<std::int64_t> kept_bytes() { return std::nullopt; }

  // Waits until its threads have stopped spinning, so that the next one is measured undisturbed.
  virtual void settle() = 0;
};

// Names that make_implementation knows, in their canonical spelling: the kernels, then the peers.
std::vector<std::string> implementation_names();

bool is_peer(std::string_view name);  // of others' making: torch-*, cudnn, onednn

// "flash2" for "Flash2", "standard" for "Pytorch"; throws Error(invalid_argument) with the valid names.
std::string canonical_name(std::string_view name);

struct ImplementationOptions {
  Device device = Device::cpu;
  std::shared_ptr<PythonChild> python{};  // shared by peers; null: each peer starts its own
};
std::unique_ptr<Implementation> make_implementation(const std::string& name, const ImplementationOptions& options);

// What a kernel says of a case, for the implementations that run kernels.

// The kernel's verdict on one pass; throws Error(unsupported) with the reason where it refuses.
Verdict verdict_of(const std::string& kernel, const Case& one, Pass pass);

// Bytes for whichever of the case's passes needs more.
std::size_t workspace_of(const std::string& kernel, const Case& one);

// Bytes of all tensors and workspace that a run of the case holds.
std::int64_t held_bytes(const std::string& kernel, const Case& one);

}  // namespace strobe::bench
