// Stubs of nvtx/ for builds without NVTX headers. Ranges do nothing.
#include "device/gpu_range.h"

namespace strobe {

GpuRange::GpuRange(const std::string&) {}
GpuRange::~GpuRange() = default;

}  // namespace strobe
