// Stubs of the CUDA kernels for builds without CUDA. Every plan is a refusal.
#include "attention/kernel_list.h"
#include "attention/standard/gpu_matmul_rate.h"
#include "core/fail.h"

namespace strobe {

namespace {

constexpr const char* kReason = "this build has no CUDA";

}  // namespace

Plan cuda::plan_sm90_forward(const Problem&) { return Plan(kReason); }
Plan cuda::plan_sm90_forward_fp32(const Problem&) { return Plan(kReason); }
Plan cuda::plan_sm90_backward(const Problem&) { return Plan(kReason); }
Plan cuda::plan_sm90_backward_fp32(const Problem&) { return Plan(kReason); }
Plan cuda::plan_sm80_forward(const Problem&) { return Plan(kReason); }
Plan cuda::plan_sm80_backward(const Problem&) { return Plan(kReason); }
Plan cuda::plan_frugal(const Problem&) { return Plan(kReason); }
Plan cuda::plan_standard(const Problem&) { return Plan(kReason); }

double gpu_matmul_rate(DType) { fail(ErrorCode::unsupported, "attention: {}", kReason); }
double gpu_tf32_matmul_rate() { fail(ErrorCode::unsupported, "attention: {}", kReason); }

}  // namespace strobe
