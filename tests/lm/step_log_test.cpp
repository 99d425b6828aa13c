#include "lm/step_log.h"

#include <gtest/gtest.h>

#include <fstream>

#include "strobe/error.h"
#include "support/scratch.h"

namespace strobe::lm {
namespace {

TEST(StepLog, CutsWhatComesAfterTheStepAndWhatIsTorn) {
  const test::Scratch scratch;
  const std::string path = (scratch.path() / "steps.jsonl").string();
  const auto row = [](int step) { return Json::object({{"step", step}}); };
  {
    StepLog log(path, 0);
    for (const int step : {1, 2, 2, 3}) log.append(row(step));
    log.sync();
  }
  std::ofstream(path, std::ios::app) << "{\"step\":";
  { StepLog log(path, 3); }
  EXPECT_EQ(scratch.read("steps.jsonl"), "{\"step\":1}\n{\"step\":2}\n{\"step\":2}\n{\"step\":3}\n");
  StepLog(path, 2).append(row(3));
  EXPECT_EQ(scratch.read("steps.jsonl"), "{\"step\":1}\n{\"step\":2}\n{\"step\":2}\n{\"step\":3}\n");
  { StepLog log(path, 0); }
  EXPECT_EQ(scratch.read("steps.jsonl"), "");
  EXPECT_THROW(StepLog((scratch.path() / "no" / "folder").string(), 0), Error);
}

}  // namespace
}  // namespace strobe::lm
