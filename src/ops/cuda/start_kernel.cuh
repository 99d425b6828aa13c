// Starts the kernels of this folder. From Hopper on a kernel may be brought onto the GPU while the one before it ends;
// it then waits by itself, for which every thread calls await_kernel_before() before anything else. Such a kernel never
// ends before the other does, so that whoever waits for it has waited for all before it.
#pragma once

#include <cuda_runtime.h>

#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "device/cuda/check.h"
#include "device/gpu_facts.h"
#include "ops/place.h"

namespace strobe::ops::cuda {

struct Grid {
  dim3 blocks, threads;
  std::size_t shared_bytes = 0;
};

inline bool kernels_wait_themselves() {
  static const char* const asked = std::getenv("STROBE_TRY_PDL");
  return current_gpu().facts.compute_capability >= 90 && !(asked && std::strcmp(asked, "0") == 0);
}

// what: for people, "rms_norm".
template <class... Parameters>
void start_kernel(const Place& place, const char* what, const Grid& grid, void (*kernel)(Parameters...),
                  std::type_identity_t<Parameters>... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = static_cast<cudaStream_t>(place.stream);
  config.attrs = &attribute;
  config.numAttrs = kernels_wait_themselves() ? 1 : 0;
  void* pointers[] = {&arguments...};
  strobe::cuda::check(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), pointers), what);
}

__device__ __forceinline__ void await_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace strobe::ops::cuda
