// Launches the frequently used kernels of this folder, on Hopper with programmatic dependent launch
// (device/cuda/start_kernel.h).
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "device/cuda/check.h"
#include "device/cuda/start_kernel.h"
#include "device/gpu_facts.h"
#include "ops/execution_context.h"

namespace strobe::ops::cuda {

using strobe::cuda::await_kernel_before;
using strobe::cuda::Grid;

// Returns true if the kernel's code for this GPU contains the wait for the previous kernel. Code compiled for
// compute_80 does not, because await_kernel_before() is empty there. All kernels of this folder are compiled with the
// same options, so only the first one is checked.
inline bool waits_itself(const void* kernel) {
  if (current_gpu().facts.compute_capability != 90) return false;
  static const bool waits = [&] {
    cudaFuncAttributes code{};
    STROBE_CUDA_CHECK(cudaFuncGetAttributes(&code, kernel));
    return code.ptxVersion >= 90;
  }();
  return waits;
}

// `what` is a name for error messages, such as "rms_norm".
template <class... Parameters>
void start_kernel(const ExecutionContext& execution, const char* what, const Grid& grid, void (*kernel)(Parameters...),
                  std::type_identity_t<Parameters>... arguments) {
  using strobe::cuda::Waits;
  const auto* const function = reinterpret_cast<const void*>(kernel);
  const Waits waits = waits_itself(function) ? Waits::in_kernel : Waits::in_launch;
  void* pointers[] = {&arguments...};
  strobe::cuda::check(strobe::cuda::start_kernel(function, grid, execution.stream, pointers, waits), what);
}

}  // namespace strobe::ops::cuda
