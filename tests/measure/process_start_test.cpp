// Tests measure/process_start: the time since the start is plausible and increases.
#include "measure/process_start.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace strobe {
namespace {

TEST(ProcessStart, TimeSinceTheStartIncreases) {
  const double before = seconds_since_process_start();
  EXPECT_GE(before, 0);
  EXPECT_LT(before, 3600);  // this test process is recent
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_GE(seconds_since_process_start(), before + 0.029);
}

}  // namespace
}  // namespace strobe
