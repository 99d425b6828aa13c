// Tests collectives of vectors in GPU memory. Several ranks share the GPU and use MPI through pinned memory; NCCL runs
// with one rank.
#include <gtest/gtest.h>

#include "cli/run_program.h"
#include "comm/engine.h"
#include "device/device_info.h"

namespace strobe::test {
namespace {

class GpuRanks : public testing::Test {
 protected:
  void SetUp() override {
    const GpuInventory inventory = gpu_inventory();
    if (inventory.gpus.empty()) GTEST_SKIP() << inventory.reason;
    if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "no mpirun in PATH";
  }
  void expect_fine(int ranks, const std::string& scenario) {
    const Scratch scratch;
    const Program program = run_command(
        "'" STROBE_PROGRAM "' launch -n " + std::to_string(ranks) + " -- '" STROBE_COMM_RANKS "' " + scenario, scratch);
    EXPECT_EQ(program.code, 0) << program.errors;
  }
};

TEST_F(GpuRanks, ShareOneGpuOverMpi) {
  if (const char* why = comm::why_no_mpi()) GTEST_SKIP() << why;
  expect_fine(2, "gpu");
  expect_fine(3, "gpu");  // shards differ by one element
}

TEST_F(GpuRanks, OneRankRunsOverNccl) {
  if (const char* why = comm::why_no_nccl()) GTEST_SKIP() << why;
  expect_fine(1, "nccl");
}

}  // namespace
}  // namespace strobe::test
