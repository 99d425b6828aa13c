// cuBLASLt's functions, found in libcublasLt when the first product needs them: a start does not wait for it to be
// loaded.
#pragma once

#include <cublasLt.h>

namespace strobe::ops::cuda {

struct CublasLtLibrary {
  decltype(cublasLtCreate)* create;
  decltype(cublasLtMatrixLayoutCreate)* layout_create;
  decltype(cublasLtMatrixLayoutSetAttribute)* layout_set;
  decltype(cublasLtMatmulDescCreate)* product_create;
  decltype(cublasLtMatmulDescSetAttribute)* product_set;
  decltype(cublasLtMatmulPreferenceCreate)* preference_create;
  decltype(cublasLtMatmulPreferenceDestroy)* preference_destroy;
  decltype(cublasLtMatmulPreferenceSetAttribute)* preference_set;
  decltype(cublasLtMatmulAlgoGetHeuristic)* heuristic;
  decltype(cublasLtMatmulAlgoConfigSetAttribute)* algorithm_set;
  decltype(cublasLtMatmulAlgoCapGetAttribute)* algorithm_get;
  decltype(cublasLtMatmulAlgoCheck)* algorithm_check;
  decltype(cublasLtMatmul)* multiply;
  decltype(cublasLtGetStatusName)* status_name;
  decltype(cublasLtGetStatusString)* status_text;
};

// Throws Error(unsupported) where it cannot be opened, and then tries again at the next call.
const CublasLtLibrary& cublas_lt();

}  // namespace strobe::ops::cuda
