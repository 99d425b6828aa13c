// Converts the status of a failed CUDA call to a strobe::Error with the text of the call and CUDA's message. Used by
// host code of device/cuda/ and by the launchers of CUDA kernels. This header does not use {fmt}, because nvcc does not
// compile Debian's version.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "strobe/error.h"

namespace strobe::cuda {

inline std::string error_text(cudaError_t status) {
  return std::string(cudaGetErrorString(status)) + " (" + cudaGetErrorName(status) + ")";
}

// Returns true for errors of earlier asynchronous work. No call returns these because of its own arguments.
inline bool is_asynchronous(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable: return true;
    default: return false;
  }
}

[[noreturn]] inline void fail_earlier(cudaError_t status) {
  throw Error(ErrorCode::runtime, "cuda: an earlier CUDA call on this context failed: " + error_text(status));
}

inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  // Clears an error that has not corrupted the context, so that later checks do not report it.
  cudaGetLastError();
  if (is_asynchronous(status)) fail_earlier(status);
  const auto code = status == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory : ErrorCode::runtime;
  throw Error(code, std::string("cuda: ") + what + " failed: " + error_text(status));
}

// Throws if the preceding launch failed. `what` is the kernel's name for the message.
inline void check_launch(const char* what) { check(cudaGetLastError(), what); }

}  // namespace strobe::cuda

#define STROBE_CUDA_CHECK(call) ::strobe::cuda::check((call), #call)

namespace strobe::cuda {

// Returns an attribute of a device.
inline int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  STROBE_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

}  // namespace strobe::cuda
