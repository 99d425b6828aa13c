// Starts the kernels of this folder. On Hopper a kernel may be brought onto the GPU while the one before it ends;
// it then waits by itself, for which every thread calls await_kernel_before() before anything else. Such a kernel never
// ends before the other does, so that whoever waits for it has waited for all before it.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "device/cuda/check.h"
#include "device/gpu_facts.h"
#include "ops/place.h"

namespace strobe::ops::cuda {

struct Grid {
  dim3 blocks, threads;
  std::size_t shared_bytes = 0;
};

// Whether the code that this GPU runs waits: not what it makes of compute_80's, in which await_kernel_before() is
// empty. All kernels of the folder are compiled alike, so that one is asked.
inline bool waits_itself(const void* kernel) {
  if (current_gpu().facts.compute_capability != 90) return false;
  static const bool waits = [&] {
    cudaFuncAttributes code{};
    STROBE_CUDA_CHECK(cudaFuncGetAttributes(&code, kernel));
    return code.ptxVersion >= 90;
  }();
  return waits;
}

// what: for people, "rms_norm".
template <class... Parameters>
void start_kernel(const Place& place, const char* what, const Grid& grid, void (*kernel)(Parameters...),
                  std::type_identity_t<Parameters>... arguments) {
  const auto* const function = reinterpret_cast<const void*>(kernel);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = static_cast<cudaStream_t>(place.stream);
  config.attrs = &attribute;
  config.numAttrs = waits_itself(function) ? 1 : 0;
  void* pointers[] = {&arguments...};
  strobe::cuda::check(cudaLaunchKernelExC(&config, function, pointers), what);
}

__device__ __forceinline__ void await_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace strobe::ops::cuda
