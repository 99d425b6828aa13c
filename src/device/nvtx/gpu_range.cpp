// GpuRange as NVTX ranges. The headers are all there is of NVTX: they open a tool's library where one is named.
#include "device/gpu_range.h"

#include <nvtx3/nvToolsExt.h>

namespace strobe {

GpuRange::GpuRange(const std::string& name) { nvtxRangePushA(name.c_str()); }
GpuRange::~GpuRange() { nvtxRangePop(); }

}  // namespace strobe
