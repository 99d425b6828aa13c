// A name over a stretch of the calling thread's time, for tools that look at the process from outside: NVTX, which
// costs next to nothing where no such tool is attached. In a build without its headers (no_nvtx.cpp) nothing is named.
#pragma once

#include <string>

namespace strobe {

class GpuRange {  // ranges of a thread lie inside each other
 public:
  explicit GpuRange(const std::string& name);
  GpuRange(const GpuRange&) = delete;
  GpuRange& operator=(const GpuRange&) = delete;
  ~GpuRange();
};

}  // namespace strobe
