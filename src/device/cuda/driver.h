// Looks up driver functions by name, so that the program does not have to link libcuda. start_kernel.cpp and the tensor
// maps of Hopper's kernels use it.
#pragma once

#include <cuda.h>

#include "device/cuda/check.h"

namespace strobe::cuda {

// Returns the CUDA 12.0 version of a driver function. Throws if the driver is older.
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

// Makes the current device's primary context current unless this thread has a context. A new thread gets a context only
// at its first runtime call that needs one, but driver functions and cuBLAS require it.
inline void enter_context() {
  static const auto ask = driver_function<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent");
  CUcontext current = nullptr;
  if (ask(&current) == CUDA_SUCCESS && current) return;
  int device = 0;
  STROBE_CUDA_CHECK(cudaGetDevice(&device));
  STROBE_CUDA_CHECK(cudaSetDevice(device));
}

}  // namespace strobe::cuda
