// Tests `solve` from file to file on the CPU. Answers are correct for any sizes, and memory does not grow with the
// file. After a failure an existing output file remains.
#include "solve/solve.h"

#include <gtest/gtest.h>

#include "device/host/allocator.h"
#include "solve/pipeline.h"
#include "solve/solved_cases.h"
#include "strobe/error.h"

namespace strobe::solve {
namespace {

TEST(Solve, AnySizeIsSolved) {
  for (const ProblemSize& size : kSmallSizes) {
    EXPECT_LT(error_of_solving(size, {.device = Device::cpu}), kSmallError)
        << size.batch << " " << size.rows << " " << size.dim;
  }
}

TEST(Solve, EveryKernelSolves) {
  for (const std::string& kernel : kernel_names(Device::cpu)) {
    EXPECT_LT(error_of_solving({3, 50, 24}, {.device = Device::cpu, .kernel = kernel}), kSmallError) << kernel;
  }
}

// 25 MB of output are computed in chunks of 8 MB, the last one smaller; there are buffers for three chunks.
TEST(Solve, MemoryIsBoundedForAnyFile) {
  host_allocator().reset_peak();
  const std::size_t before = host_allocator().statistics().current;
  EXPECT_LT(error_of_solving({401, 128, 128}, {.device = Device::cpu}), kSmallError);
  EXPECT_LT(host_allocator().statistics().peak - before, std::size_t{3 * 8 + 44} << 20);
  EXPECT_EQ(host_allocator().statistics().current, before);
}

TEST(Solve, AFailureLeavesTheOldOutput) {
  const test::Scratch scratch;
  std::ofstream(scratch.path() / "out") << "old";
  const std::string input = STROBE_TEST_DATA "/solve/wide.in", output = (scratch.path() / "out").string();
  EXPECT_THROW(solve_file(input, output, {.device = Device::cpu, .kernel = "flash2"}),
               Error);  // d is 260; flash2 has at most 256
  EXPECT_THROW(solve_file(input + ".missing", output, {}), Error);
  EXPECT_EQ(scratch.read("out"), "old");
  EXPECT_EQ(scratch.entries(), 1u);
  const Solved solved = solve_file(input, output, {.device = Device::cpu});
  EXPECT_EQ(solved.kernel, "frugal");
  EXPECT_EQ(scratch.read("out").size(), 2u * 5 * 260 * 4);
}

TEST(Solve, TheOutputDoesNotReplaceTheInput) {
  const test::Scratch scratch;
  const std::filesystem::path input = scratch.path() / "in", link = scratch.path() / "link";
  std::filesystem::copy_file(STROBE_TEST_DATA "/solve/wide.in", input);
  std::filesystem::create_symlink("in", link);
  const std::string before = scratch.read("in");
  for (const std::filesystem::path& output : {input, link}) {
    EXPECT_THROW(solve_file(input.string(), output.string(), {.device = Device::cpu}), Error);
  }
  EXPECT_EQ(scratch.read("in"), before);
  EXPECT_EQ(scratch.entries(), 2u);
}

TEST(BusyTime, OverlapsCountOnce) {
  BusyTime a, b;
  EXPECT_EQ(BusyTime::together({&a, &b}), 0);
  a.add(1, 3);
  a.add(6, 7);
  b.add(2, 4);
  b.add(2.5, 3.5);
  b.add(7, 8);
  EXPECT_EQ(a.sum(), 3);
  EXPECT_EQ(BusyTime::together({&a, &b}), 5);
}

}  // namespace
}  // namespace strobe::solve
