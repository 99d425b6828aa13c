// Checks that cuBLASLt has the functions resolved at run time, which the linker cannot check. Needs the toolkit, not a
// GPU.
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
