// Runs the scenarios of tests/lm/ranks on 2 and 4 ranks that `strobe launch` starts. Each scenario checks its results.
#include <gtest/gtest.h>

#include "cli/run_program.h"
#include "comm/engine.h"

namespace strobe::test {
namespace {

class DataParallelRanks : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = comm::why_no_mpi()) GTEST_SKIP() << why;
    if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "no mpirun in PATH";
  }

  // Expects that the scenario reports no faults on 2 and on 4 ranks.
  void expect_fine(const std::string& scenario) {
    for (const int ranks : {2, 4}) {
      const Program program =
          run_command("ASAN_OPTIONS=detect_leaks=0 STROBE_COMM_TIMEOUT=60 '" STROBE_PROGRAM "' launch -n " +
                          std::to_string(ranks) + " --grace 60 -- '" STROBE_LM_RANKS "' " + scenario,
                      scratch_);
      EXPECT_EQ(program.code, 0) << scenario << " on " << ranks << " ranks: " << program.errors;
      EXPECT_EQ(program.errors, "");
    }
  }

  Scratch scratch_;
};

// With each strategy of gradient exchange, parameters, losses and gradient norms must agree with one process to 1e-5,
// with clipping and with frozen parameters. A repeated run must have the same bits.
TEST_F(DataParallelRanks, EveryStrategyEqualsOneProcess) { expect_fine("equal"); }

// Trains a toy function with plain, tied, frozen, and tied and frozen tensors. The ranks start with different values.
TEST_F(DataParallelRanks, TiedTensorsAreExchangedAfterTheirLastUseAndFrozenOnesNever) { expect_fine("tied"); }

TEST_F(DataParallelRanks, AShardedOptimizerChangesNoBitAndSavesMemory) { expect_fine("shared-optimizer"); }

TEST_F(DataParallelRanks, GradientsMayReuseMemoryOfActivations) { expect_fine("shared-gradients"); }

TEST_F(DataParallelRanks, StartWithTheValuesOfRank0) { expect_fine("broadcast"); }

TEST_F(DataParallelRanks, BucketsAreSummedBeforeBackwardEnds) { expect_fine("events"); }

TEST_F(DataParallelRanks, CallsAndBytesAreThoseOfTheStrategy) { expect_fine("calls"); }

TEST_F(DataParallelRanks, MomentsAreScatteredAndGathered) { expect_fine("averages"); }

TEST_F(DataParallelRanks, SkipAStepInWhichOneGradientOverflows) { expect_fine("loss-scale"); }

TEST_F(DataParallelRanks, InvalidRequestsAreRejected) { expect_fine("refusals"); }

}  // namespace
}  // namespace strobe::test
