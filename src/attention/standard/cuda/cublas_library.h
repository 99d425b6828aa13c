// cuBLAS's functions, found in libcublas when the first product needs them: a start does not wait for it to be loaded,
// and the other kernels need none.
#pragma once

#include <cublas_v2.h>

namespace strobe::standard {

struct CublasLibrary {
  decltype(cublasCreate)* create;
  decltype(cublasSetStream)* set_stream;
  decltype(cublasSetWorkspace)* set_workspace;
  decltype(cublasSetMathMode)* set_math_mode;
  decltype(cublasGemmStridedBatchedEx_64)* gemm_strided_batched;
  decltype(cublasGetStatusName)* status_name;
  decltype(cublasGetStatusString)* status_text;
};

// Throws Error(unsupported) where it cannot be opened, and then tries again at the next call.
const CublasLibrary& cublas_library();

}  // namespace strobe::standard
