// Tests `solve` from file to file on a GPU. Answers are correct for any sizes and for several chunks of the input. A
// batch need not be a multiple of the 4 MiB that are copied at a time.
#include <gtest/gtest.h>

#include "device/gpu_allocator.h"
#include "device/gpu_facts.h"
#include "solve/solved_cases.h"

namespace strobe::solve {
namespace {

class GpuSolve : public testing::Test {
 protected:
  void SetUp() override {
    if (const CurrentGpu gpu = current_gpu(); !gpu.reason.empty()) GTEST_SKIP() << gpu.reason;
  }
};

TEST_F(GpuSolve, AnySizeIsSolved) {
  for (const ProblemSize& size : kSmallSizes) {
    EXPECT_LT(error_of_solving(size, {.device = Device::cuda}), kSmallError)
        << size.batch << " " << size.rows << " " << size.dim;
  }
}

// The 151 MB of input are processed in nine chunks: eight of 124 batches, the last of one batch. Each chunk is copied 4
// MiB at a time; its last copy is smaller. The GPU holds at most three chunks.
TEST_F(GpuSolve, ManyChunksAreSolvedInBoundedMemory) {
  gpu_allocator().reset_peak();
  EXPECT_LT(error_of_solving({993, 199, 64}, {.device = Device::cuda}), kSmallError);
  EXPECT_LT(gpu_allocator().statistics().peak, std::size_t{200} << 20);
  EXPECT_EQ(gpu_allocator().statistics().current, 0u);
}

TEST_F(GpuSolve, ABatchLargerThanAChunkIsSolved) {
  EXPECT_LT(error_of_solving({2, 12000, 64}, {.device = Device::cuda}), kSmallError);
}

TEST_F(GpuSolve, ForcedKernelsSolve) {
  for (const std::string& kernel : {std::string("flash2"), std::string("frugal")}) {
    EXPECT_LT(error_of_solving({50, 300, 32}, {.device = Device::cuda, .kernel = kernel}), kSmallError) << kernel;
  }
}

TEST_F(GpuSolve, IsTheDefault) {
  const test::Scratch scratch;
  const Solved solved = solve_file(STROBE_TEST_DATA "/solve/plain.in", (scratch.path() / "out").string());
  EXPECT_EQ(solved.device, Device::cuda);
  EXPECT_GT(solved.times.busy, 0);
  EXPECT_LE(solved.times.busy, solved.times.to_device + solved.times.kernel + solved.times.from_device + 1e-9);
}

}  // namespace
}  // namespace strobe::solve
