#include "attention/standard/cuda/cublas_library.h"

#include "device/cuda/toolkit_library.h"

namespace strobe::standard {

namespace {

CublasLibrary open_library() {
  const SharedLibrary opened = cuda::open_toolkit_library("cublas", CUBLAS_VER_MAJOR);
  CublasLibrary found{};
  // The header's macros have the second version of some under their first names.
  opened.find("cublasCreate_v2", found.create);
  opened.find("cublasSetStream_v2", found.set_stream);
  opened.find("cublasSetWorkspace_v2", found.set_workspace);
  opened.find("cublasSetMathMode", found.set_math_mode);
  opened.find("cublasGemmStridedBatchedEx_64", found.gemm_strided_batched);
  opened.find("cublasGetStatusName", found.status_name);
  opened.find("cublasGetStatusString", found.status_text);
  return found;
}

}  // namespace

const CublasLibrary& cublas_library() {
  static const CublasLibrary library = open_library();
  return library;
}

}  // namespace strobe::standard
