// Tests that every cuBLASLt function that is loaded by name exists in the library, because the linker does not check
// these names. Needs the CUDA toolkit but no GPU.
#include "ops/cuda/cublas_lt_library.h"

#include <gtest/gtest.h>

namespace strobe::ops::cuda {
namespace {

TEST(CublasLtLibrary, HasEveryFunction) {
  EXPECT_STREQ(cublas_lt().status_name(CUBLAS_STATUS_NOT_SUPPORTED), "CUBLAS_STATUS_NOT_SUPPORTED");
  EXPECT_STRNE(cublas_lt().status_text(CUBLAS_STATUS_NOT_SUPPORTED), "");
}

}  // namespace
}  // namespace strobe::ops::cuda
