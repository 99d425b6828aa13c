// Functions of the driver by name, so that the library need not be linked with it.
#pragma once

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

// A new thread has no context before it asks the runtime for something of one, and functions of the driver refuse it
// with CUDA_ERROR_INVALID_CONTEXT. Gives it its device's; only for such a thread, as it would replace a caller's own.
inline void enter_context() {
  int device = 0;
  STROBE_CUDA_CHECK(cudaGetDevice(&device));
  STROBE_CUDA_CHECK(cudaSetDevice(device));
}

}  // namespace strobe::cuda
