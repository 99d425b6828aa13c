#include "ops/cuda/cublas_lt_library.h"

#include "device/cuda/toolkit_library.h"

namespace strobe::ops::cuda {

namespace {

CublasLtLibrary open_library() {
  const SharedLibrary opened = strobe::cuda::open_toolkit_library("cublasLt", CUBLAS_VER_MAJOR);
  CublasLtLibrary found{};
  opened.find("cublasLtCreate", found.create);
  opened.find("cublasLtMatrixLayoutCreate", found.layout_create);
  opened.find("cublasLtMatrixLayoutSetAttribute", found.layout_set);
  opened.find("cublasLtMatmulDescCreate", found.product_create);
  opened.find("cublasLtMatmulDescSetAttribute", found.product_set);
  opened.find("cublasLtMatmulPreferenceCreate", found.preference_create);
  opened.find("cublasLtMatmulPreferenceDestroy", found.preference_destroy);
  opened.find("cublasLtMatmulPreferenceSetAttribute", found.preference_set);
  opened.find("cublasLtMatmulAlgoGetHeuristic", found.heuristic);
  opened.find("cublasLtMatmulAlgoConfigSetAttribute", found.algorithm_set);
  opened.find("cublasLtMatmulAlgoCapGetAttribute", found.algorithm_get);
  opened.find("cublasLtMatmulAlgoCheck", found.algorithm_check);
  opened.find("cublasLtMatmul", found.multiply);
  opened.find("cublasLtGetStatusName", found.status_name);
  opened.find("cublasLtGetStatusString", found.status_text);
  return found;
}

}  // namespace

const CublasLtLibrary& cublas_lt() {
  static const CublasLtLibrary library = open_library();
  return library;
}

}  // namespace strobe::ops::cuda
