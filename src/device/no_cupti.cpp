// Stands in for cupti/ in a build without CUDA or without CUPTI's headers: no trace, with the reason.
#include "core/fail.h"
#include "device/device_info.h"
#include "device/kernel_trace.h"

namespace strobe {

std::string kernel_trace_refusal() {
  const GpuInventory inventory = gpu_inventory();
  return inventory.compiled_in ? "this build has no CUPTI (configure it where the toolkit's cupti.h is)"
                               : inventory.reason;
}

KernelTrace::KernelTrace() { fail(ErrorCode::unsupported, "kernel trace: {}", kernel_trace_refusal()); }
KernelTrace::~KernelTrace() = default;
void KernelTrace::enter(std::uint64_t) const {}
void KernelTrace::leave() const noexcept {}
void KernelTrace::end() {}
std::vector<GpuRecord> KernelTrace::finish() { return {}; }

}  // namespace strobe
