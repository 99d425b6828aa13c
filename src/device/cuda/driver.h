// Functions of the driver by name, so that the library need not be linked with it.
#pragma once

#include <cuda.h>

#include "device/cuda/check.h"

namespace strobe::cuda {

// As of CUDA 12.0; fails where the driver is older.
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

// A new thread has no context before it asks the runtime for something of one, and neither the driver nor cuBLAS works
// without. Gives it its device's; a context that a caller has set stays.
inline void enter_context() {
  static const auto ask = driver_function<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent");
  CUcontext current = nullptr;
  if (ask(&current) == CUDA_SUCCESS && current) return;
  int device = 0;
  STROBE_CUDA_CHECK(cudaGetDevice(&device));
  STROBE_CUDA_CHECK(cudaSetDevice(device));
}

}  // namespace strobe::cuda
