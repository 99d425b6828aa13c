// Records every kernel, copy and memset on a GPU with CUPTI's activity API, and the operation that launched each. Used
// by `strobe lm profile`. The first trace loads libcupti. KernelTrace throws if that fails, or if the build has no
// CUPTI headers (no_cupti.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace strobe {

struct GpuRecord {
  enum class Kind { kernel, copy, clear };
  Kind kind = Kind::kernel;
  std::string name;            // demangled kernel name, or a name such as "copy host to GPU" or "clear"
  std::uint64_t launcher = 0;  // argument of enter() that was in effect at the launch; 0 if there was none
  int stream = 0;              // CUPTI's stream id
  double begin = 0;            // start on the clock of now_seconds()
  double seconds = 0;          // duration
  std::size_t bytes = 0;       // size of a copy or a clear
};

// Returns the reason why this process cannot trace, or "" if it can.
std::string kernel_trace_refusal();

// Records all GPU work of this process until finish(). Only one trace may be active. The constructor throws
// Error(unsupported) with the reason if traces are unavailable.
class KernelTrace {
 public:
  KernelTrace();
  KernelTrace(const KernelTrace&) = delete;
  KernelTrace& operator=(const KernelTrace&) = delete;
  ~KernelTrace();  // ends the trace and discards its records unless finish() was called

  // Attributes launches of the calling thread between enter() and leave() to `launcher` instead of 0. Pairs may nest; a
  // launch is attributed to the innermost one.
  void enter(std::uint64_t launcher) const;
  void leave() const noexcept;

  // Waits for all GPU work, ends the trace and returns the records ordered by begin. Throws Error(runtime) if CUPTI
  // lost a record or the time of one, because the remaining times would not add up to the GPU's time.
  std::vector<GpuRecord> finish();

 private:
  void end();

  [[maybe_unused]] bool is_active_ = false;
};

}  // namespace strobe
