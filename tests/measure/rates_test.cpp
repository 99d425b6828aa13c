// Tests measure/rates (machine rates in FLOP/s and bytes/s) and the description of the environment: values are
// plausible.
#include "measure/rates.h"

#include <gtest/gtest.h>

#include "measure/environment.h"
#include "measure/system_info.h"

namespace strobe {
namespace {

TEST(Rates, ArePlausible) {
  const double fma = fma_rate(1, 0.02);
  EXPECT_GT(fma, 1e7);
  EXPECT_LT(fma, 2e12);  // no current core reaches 1 TFLOP/s in fp32 without AMX or SME
  EXPECT_GT(copy_rate(1, 0.01), 1e7);
  EXPECT_LT(copy_rate(1, 0.01), 1e13);
  EXPECT_GE(timed_microsecond(), 1e-6);
  EXPECT_LT(timed_microsecond(), 1e-3);
}

TEST(Environment, NamesTheMachine) {
  const Json json = environment_json();
  EXPECT_FALSE(json.at("cpu").at("model").as_string().empty());
  EXPECT_GE(json.at("cpu").at("cores").as_integer(), 1);
  EXPECT_FALSE(json.at("strobe").at("revision").as_string().empty());
  EXPECT_FALSE(json.at("openblas").as_string().empty());
  EXPECT_EQ(json.at("date").as_string().size(), 20u);
  EXPECT_EQ(Json::parse(json.dump()).dump(), json.dump());
}

TEST(Environment, MemoryIsPlausible) {
  const MemoryInfo memory = read_memory_info();
  EXPECT_GT(memory.total, 1 << 20);
  EXPECT_GT(memory.available, 0);
  EXPECT_LE(memory.available, memory.total);
}

}  // namespace
}  // namespace strobe
