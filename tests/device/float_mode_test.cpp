// Tests device/float_mode: library code runs in the default floating-point mode on every thread, and the caller's mode
// is restored, also after an exception.
#include "device/host/float_mode.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "device/host/thread_pool.h"
#include "support/float_mode.h"

namespace strobe {
namespace {

using test::ForeignMode;

volatile float subnormal = 1e-40f;
volatile float third = 3;

bool computes_by_default() {
  const bool keeps_subnormals = subnormal * 1.0f != 0;
  const bool rounds_to_nearest = 1 / third == 0x1.555556p-2f && -1 / third == -0x1.555556p-2f;
  return keeps_subnormals && rounds_to_nearest && float_control() == kDefaultFloatControl;
}

TEST(FloatMode, IsTheDefaultInsideAndTheCallersAfterwards) {
  ASSERT_TRUE(computes_by_default());
  for (const FloatControl foreign : test::foreign_modes()) {
    const ForeignMode caller(foreign);
    ASSERT_FALSE(computes_by_default());
    {
      const DefaultFloatMode mode;
      EXPECT_TRUE(computes_by_default());
    }
    EXPECT_EQ(float_control(), foreign);
  }
  EXPECT_TRUE(computes_by_default());
}

TEST(FloatMode, IsRestoredAfterAnException) {
  for (const FloatControl foreign : test::foreign_modes()) {
    const ForeignMode caller(foreign);
    EXPECT_THROW(
        {
          const DefaultFloatMode mode;
          throw std::runtime_error("");
        },
        std::runtime_error);
    EXPECT_EQ(float_control(), foreign);
  }
}

TEST(FloatMode, EveryThreadOfAJobHasTheDefault) {
  for (const FloatControl foreign : test::foreign_modes()) {
    for (const int threads : {1, 4}) {
      const ForeignMode caller(foreign);  // worker threads that start now inherit this mode
      std::atomic<int> right = 0;
      parallel(threads, [&](int) { right += computes_by_default() ? 1 : 0; });
      EXPECT_EQ(right, threads);
      EXPECT_EQ(float_control(), foreign);
      EXPECT_THROW(parallel(threads, [](int) { throw std::runtime_error(""); }), std::runtime_error);
      EXPECT_EQ(float_control(), foreign);
    }
  }
}

}  // namespace
}  // namespace strobe
