// The cuBLASLt functions that Strobe calls. libcublasLt is loaded by the first matmul, so program start does not wait
// for it.
#pragma once

#include <cublasLt.h>

#include "device/shared_library.h"

namespace strobe::ops::cuda {

struct CublasLtLibrary : SharedLibrary {
  CublasLtLibrary() : SharedLibrary(toolkit_library("cublasLt", CUBLAS_VER_MAJOR)) {}

  decltype(cublasLtCreate)* create = function("cublasLtCreate");
  decltype(cublasLtMatrixLayoutCreate)* layout_create = function("cublasLtMatrixLayoutCreate");
  decltype(cublasLtMatrixLayoutSetAttribute)* layout_set = function("cublasLtMatrixLayoutSetAttribute");
  decltype(cublasLtMatmulDescCreate)* descriptor_create = function("cublasLtMatmulDescCreate");
  decltype(cublasLtMatmulDescSetAttribute)* descriptor_set = function("cublasLtMatmulDescSetAttribute");
  decltype(cublasLtMatmulPreferenceCreate)* preference_create = function("cublasLtMatmulPreferenceCreate");
  decltype(cublasLtMatmulPreferenceDestroy)* preference_destroy = function("cublasLtMatmulPreferenceDestroy");
  decltype(cublasLtMatmulPreferenceSetAttribute)* preference_set = function("cublasLtMatmulPreferenceSetAttribute");
  decltype(cublasLtMatmulAlgoGetHeuristic)* heuristic = function("cublasLtMatmulAlgoGetHeuristic");
  decltype(cublasLtMatmulAlgoConfigSetAttribute)* algorithm_set = function("cublasLtMatmulAlgoConfigSetAttribute");
  decltype(cublasLtMatmulAlgoCapGetAttribute)* algorithm_get = function("cublasLtMatmulAlgoCapGetAttribute");
  decltype(cublasLtMatmulAlgoCheck)* algorithm_check = function("cublasLtMatmulAlgoCheck");
  decltype(cublasLtMatmul)* matmul = function("cublasLtMatmul");
  decltype(cublasLtGetStatusName)* status_name = function("cublasLtGetStatusName");
  decltype(cublasLtGetStatusString)* status_text = function("cublasLtGetStatusString");
};

inline const CublasLtLibrary& cublas_lt() { return opened<CublasLtLibrary>(); }

}  // namespace strobe::ops::cuda
