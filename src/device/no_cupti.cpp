// Stubs of cupti/ for builds without CUDA or CUPTI headers. The constructor of KernelTrace throws an error with the
// reason.
#include "core/fail.h"
#include "device/gpu_facts.h"
#include "device/kernel_trace.h"

namespace strobe {

std::string kernel_trace_refusal() {
  if (std::string reason = current_gpu().reason; !reason.empty()) return reason;
  return "this build has no CUPTI (configure it on a machine with the toolkit's cupti.h)";
}

KernelTrace::KernelTrace() { fail(ErrorCode::unsupported, "kernel trace: {}", kernel_trace_refusal()); }
KernelTrace::~KernelTrace() = default;
void KernelTrace::enter(std::uint64_t) const {}
void KernelTrace::leave() const noexcept {}
void KernelTrace::end() {}
std::vector<GpuRecord> KernelTrace::finish() { return {}; }

}  // namespace strobe
