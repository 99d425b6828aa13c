// Traces a GPU's kernels and their launchers with CUPTI's activity records, without CUDA headers. `strobe lm profile`
// uses it. The first trace opens libcupti. If that fails, or the build has no CUPTI headers (no_cupti.cpp), a trace
// throws with the reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace strobe {

struct GpuRecord {
  enum class Kind { kernel, copy, clear };
  Kind kind = Kind::kernel;
  std::string name;            // demangled kernel name; "copy host to GPU", "clear"
  std::uint64_t launcher = 0;  // argument of enter() at its launch; 0: none
  int stream = 0;              // CUPTI's stream id
  double begin = 0;            // by now_seconds()
  double seconds = 0;
  std::size_t bytes = 0;  // size of a copy or a clear
};

// Why this process cannot trace; empty if it can.
std::string kernel_trace_refusal();

// Records all GPU work of this process until finish(); one trace at a time. Throws Error(unsupported) with the reason
// if traces are unavailable.
class KernelTrace {
 public:
  KernelTrace();
  KernelTrace(const KernelTrace&) = delete;
  KernelTrace& operator=(const KernelTrace&) = delete;
  ~KernelTrace();  // drops the records unless finish() was called

  // Attributes launches of the calling thread between enter() and leave() to `launcher` instead of 0. Pairs may nest:
  // the inner one counts.
  void enter(std::uint64_t launcher) const;
  void leave() const noexcept;

  // Ends the trace after all work has ended; returns the records ordered by begin. Throws Error(runtime) if CUPTI lost
  // a record or its time: the sum of the others would not be the GPU's time.
  std::vector<GpuRecord> finish();

 private:
  void end();

  [[maybe_unused]] bool is_active_ = false;
};

}  // namespace strobe
