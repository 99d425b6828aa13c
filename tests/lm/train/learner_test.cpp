// What ranks that share a device are told before any of them allocates.
#include "lm/train/learner.h"

#include <gtest/gtest.h>

#include <string>

#include "lm/plan/device_memory.h"

namespace strobe::lm {
namespace {

TEST(Learner, RanksThatDoNotFitAreToldTheBytesOfEach) {
  constexpr std::size_t kState = 1'000'000'007;
  Settings settings;
  settings.shape = shape_of("xl");
  settings.precision = Precision::bf16;
  const DeviceMemory memory = device_memory({.one = {.shape = settings.shape,
                                                     .batch = 2,
                                                     .precision = settings.precision,
                                                     .gradients = GradientMemory::shared}},
                                            0);
  const std::size_t needed = memory.total() - memory.optimizer - memory.other + kState;
  try {
    training_model(settings, 2, {.processes = 1 << 16}, OptimizerMemory::outside, kState);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    const std::string text = error.what();
    EXPECT_NE(text.find("take " + std::to_string(needed) + " bytes"), std::string::npos) << text;
    EXPECT_NE(text.find("for each of its 65536 ranks"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace strobe::lm
