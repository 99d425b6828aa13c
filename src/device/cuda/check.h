// Turns a failed CUDA call into the library's one error, with the call's text and CUDA's own words. Host code of
// device/cuda/ and of the CUDA kernels' launchers; no {fmt} here, nvcc does not compile Debian's.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "strobe/error.h"

namespace strobe::cuda {

inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // an error that does not poison the context must not be met again by the next launch
  const auto code = status == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory : ErrorCode::runtime;
  throw Error(code, std::string("cuda: ") + what + " failed: " + cudaGetErrorString(status) + " (" +
                        cudaGetErrorName(status) + ")");
}

}  // namespace strobe::cuda

#define STROBE_CUDA_CHECK(call) ::strobe::cuda::check((call), #call)
