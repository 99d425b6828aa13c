// Tests that every cuBLAS function that is loaded by name exists in the library, because the linker does not check
// these names. Needs the CUDA toolkit but no GPU.
#include "attention/standard/cuda/cublas_library.h"

#include <gtest/gtest.h>

namespace strobe::standard {
namespace {

TEST(CublasLibrary, HasEveryFunction) {
  EXPECT_STREQ(cublas_library().status_name(CUBLAS_STATUS_NOT_SUPPORTED), "CUBLAS_STATUS_NOT_SUPPORTED");
  EXPECT_STRNE(cublas_library().status_text(CUBLAS_STATUS_NOT_SUPPORTED), "");
}

}  // namespace
}  // namespace strobe::standard
