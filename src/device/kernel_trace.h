// What a GPU does, kernel by kernel, and who launched it: CUPTI's activity records, seen from host code without a CUDA
// header. `strobe lm profile` asks. libcupti is opened when the first trace begins; where it cannot be opened, or the
// build has none of its headers (no_cupti.cpp), a trace is refused with the reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace strobe {

struct GpuRecord {
  enum class Kind { kernel, copy, clear };
  Kind kind = Kind::kernel;
  std::string name;            // a kernel's, demangled; "copy host to GPU", "clear"
  std::uint64_t launcher = 0;  // what enter() was given when it was launched; 0: nothing
  int stream = 0;              // as CUPTI counts them
  double begin = 0;            // by now_seconds()
  double seconds = 0;
  std::size_t bytes = 0;  // of a copy or a clear
};

// Empty, or why there can be no trace in this process.
std::string kernel_trace_refusal();

// All that this process does on its GPUs from here on, until finish(); one at a time. Throws Error(unsupported) with
// the reason where there can be none.
class KernelTrace {
 public:
  KernelTrace();
  KernelTrace(const KernelTrace&) = delete;
  KernelTrace& operator=(const KernelTrace&) = delete;
  ~KernelTrace();  // what was not asked for is dropped

  // What the calling thread launches between them is `launcher`'s, not 0. Pairs may be nested: the inner one counts.
  void enter(std::uint64_t launcher) const;
  void leave() const noexcept;

  // Ordered by their begin, after all of them have ended; the trace is over. Throws Error(runtime) where CUPTI lost
  // records or has no time of one: a sum of the others would not be the GPU's time.
  std::vector<GpuRecord> finish();

 private:
  void end();

  [[maybe_unused]] bool is_under_way_ = false;
};

}  // namespace strobe
