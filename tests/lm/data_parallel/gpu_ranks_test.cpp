// Runs the scenarios of tests/lm/ranks with the model on a GPU. Two or four ranks share the GPU and communicate by MPI;
// one rank runs with NCCL.
#include <gtest/gtest.h>

#include "cli/run_program.h"
#include "comm/engine.h"
#include "support/gpu.h"

namespace strobe::test {
namespace {

class GpuDataParallelRanks : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "no mpirun in PATH";
  }

  void expect_fine(int ranks, const std::string& scenario, const std::string& where) {
    const Scratch scratch;
    const Program program =
        run_command("STROBE_COMM_TIMEOUT=60 '" STROBE_PROGRAM "' launch -n " + std::to_string(ranks) +
                        " --grace 60 -- '" STROBE_LM_RANKS "' " + scenario + " " + where,
                    scratch);
    EXPECT_EQ(program.code, 0) << scenario << " on " << ranks << " ranks: " << program.errors;
  }
  void expect_fine_on_a_shared_gpu(const std::string& scenario) {
    if (const char* why = comm::why_no_mpi()) GTEST_SKIP() << why;
    expect_fine(2, scenario, "cuda");
  }
};

TEST_F(GpuDataParallelRanks, EveryStrategyEqualsOneProcess) { expect_fine_on_a_shared_gpu("equal"); }

TEST_F(GpuDataParallelRanks, AShardedOptimizerChangesNoBitAndSavesMemory) {
  expect_fine_on_a_shared_gpu("shared-optimizer");
}

TEST_F(GpuDataParallelRanks, GradientsMayReuseMemoryOfActivations) { expect_fine_on_a_shared_gpu("shared-gradients"); }

TEST_F(GpuDataParallelRanks, StartWithTheValuesOfRank0) { expect_fine_on_a_shared_gpu("broadcast"); }

TEST_F(GpuDataParallelRanks, BucketsAreSummedBeforeBackwardEnds) { expect_fine_on_a_shared_gpu("events"); }

TEST_F(GpuDataParallelRanks, CallsAndBytesAreThoseOfTheStrategy) { expect_fine_on_a_shared_gpu("calls"); }

TEST_F(GpuDataParallelRanks, MomentsAreScatteredAndGathered) { expect_fine_on_a_shared_gpu("averages"); }

TEST_F(GpuDataParallelRanks, SkipAStepInWhichOneGradientOverflows) { expect_fine_on_a_shared_gpu("loss-scale"); }

TEST_F(GpuDataParallelRanks, FourRanksShareAGpu) {
  if (const char* why = comm::why_no_mpi()) GTEST_SKIP() << why;
  expect_fine(4, "shared-optimizer", "cuda");
}

TEST_F(GpuDataParallelRanks, OneRankRunsOverNccl) {
  if (const char* why = comm::why_no_nccl()) GTEST_SKIP() << why;
  for (const char* scenario : {"equal", "shared-optimizer", "events", "averages"}) expect_fine(1, scenario, "nccl");
}

}  // namespace
}  // namespace strobe::test
