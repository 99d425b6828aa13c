// Implements GpuRange with NVTX, a header-only library that loads a profiler's library if one is attached.
#include "device/gpu_range.h"

#include <nvtx3/nvToolsExt.h>

namespace strobe {

GpuRange::GpuRange(const std::string& name) { nvtxRangePushA(name.c_str()); }
GpuRange::~GpuRange() { nvtxRangePop(); }

}  // namespace strobe
