// Stubs for nvtx/ in a build without NVTX headers: ranges do nothing.
#include "device/gpu_range.h"

namespace strobe {

GpuRange::GpuRange(const std::string&) {}
GpuRange::~GpuRange() = default;

}  // namespace strobe
