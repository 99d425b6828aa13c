// Tests that the cuBLAS functions that are resolved at run time exist: the linker does not check their names. Needs the
// toolkit but no GPU.
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
