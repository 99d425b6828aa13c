// The cuBLAS functions that Strobe calls. libcublas is loaded by the first matmul, so other kernels do not need it.
#pragma once

#include <cublas_v2.h>

#include "device/shared_library.h"

namespace strobe::standard {

struct CublasLibrary : SharedLibrary {
  CublasLibrary() : SharedLibrary(toolkit_library("cublas", CUBLAS_VER_MAJOR)) {}

  // cublas_v2.h defines the names of the first three as macros for these _v2 functions.
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
