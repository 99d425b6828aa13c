// Stands in for the CUDA kernels in a build without CUDA: the same rows of the kernel list, each with the reason why
// not.
#include "attention/kernel_list.h"
#include "attention/standard/gpu_product_rate.h"
#include "core/fail.h"

namespace strobe {

namespace {

constexpr const char* kReason = "this build has no CUDA";

constexpr Kernel absent(const char* name) {
  return {.name = name,
          .device = Device::cuda,
          .refusal = [](const Problem&) { return std::string(kReason); },
          .configuration = [](const Problem&) { return std::string(); },
          .workspace_bytes = [](const Problem&) -> std::size_t { return 0; },
          .run = [](const Problem&, void*) { fail(ErrorCode::unsupported, "attention: {}", kReason); }};
}

}  // namespace

const Kernel kHopperCuda = absent("hopper");
const Kernel kFlash2Cuda = absent("flash2");
const Kernel kFrugalCuda = absent("frugal");
const Kernel kStandardCuda = absent("standard");

double gpu_product_rate(DType) { fail(ErrorCode::unsupported, "attention: {}", kReason); }
double gpu_tf32_product_rate() { fail(ErrorCode::unsupported, "attention: {}", kReason); }

}  // namespace strobe
