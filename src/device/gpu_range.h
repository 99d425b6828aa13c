// An NVTX range: a named span of the calling thread's time, which external profilers show. It costs almost nothing
// unless a profiler is attached. In a build without NVTX headers (no_nvtx.cpp) it does nothing. `strobe lm profile`
// uses it.
#pragma once

#include <string>

namespace strobe {

class GpuRange {  // ranges of a thread must nest
 public:
  explicit GpuRange(const std::string& name);
  GpuRange(const GpuRange&) = delete;
  GpuRange& operator=(const GpuRange&) = delete;
  ~GpuRange();
};

}  // namespace strobe
