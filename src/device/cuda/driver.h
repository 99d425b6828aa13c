// Looks up driver functions by name, so that the program does not link libcuda.
#pragma once

#include <cuda.h>

#include "device/cuda/check.h"

namespace strobe::cuda {

// Returns the function's CUDA 12.0 version. Throws if the driver is older.
template <class Function>
Function driver_function(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  STROBE_CUDA_CHECK(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
  if (result != cudaDriverEntryPointSuccess || !found) {
    throw Error(ErrorCode::unsupported, std::string("cuda: the driver has no ") + name + "; it is older than CUDA 12");
  }
  return reinterpret_cast<Function>(found);
}

// Makes the device's primary context current unless the caller has set a context. A new thread has no context before
// its first runtime call that needs one, and neither the driver nor cuBLAS works without.
inline void enter_context() {
  static const auto ask = driver_function<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent");
  CUcontext current = nullptr;
  if (ask(&current) == CUDA_SUCCESS && current) return;
  int device = 0;
  STROBE_CUDA_CHECK(cudaGetDevice(&device));
  STROBE_CUDA_CHECK(cudaSetDevice(device));
}

}  // namespace strobe::cuda
