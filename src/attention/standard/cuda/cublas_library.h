// cuBLAS's functions. libcublas is opened by the first matmul: a start does not wait for it, and other kernels need
// none.
#pragma once

#include <cublas_v2.h>

#include "device/shared_library.h"

namespace strobe::standard {

struct CublasLibrary : SharedLibrary {
  CublasLibrary() : SharedLibrary(toolkit_library("cublas", CUBLAS_VER_MAJOR)) {}

  // The header's macros have the second version of some under their first names.
  decltype(cublasCreate)* create = function("cublasCreate_v2");
  decltype(cublasSetStream)* set_stream = function("cublasSetStream_v2");
  decltype(cublasSetWorkspace)* set_workspace = function("cublasSetWorkspace_v2");
  decltype(cublasSetMathMode)* set_math_mode = function("cublasSetMathMode");
  decltype(cublasGemmStridedBatchedEx_64)* gemm_strided_batched = function("cublasGemmStridedBatchedEx_64");
  decltype(cublasGetStatusName)* status_name = function("cublasGetStatusName");
  decltype(cublasGetStatusString)* status_text = function("cublasGetStatusString");
};

inline const CublasLibrary& cublas_library() { return opened<CublasLibrary>(); }

}  // namespace strobe::standard
