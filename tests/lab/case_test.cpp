// Tests fitting_case(), which replaces a case that takes too long by a smaller one.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "lab/case.h"

namespace strobe::lab {
namespace {

using BatchAndRows = std::tuple<int, int>;  // {batch, rows}

BatchAndRows sizes_of(const CourseCase& size) { return {size.batch, size.rows}; }

// Returns seconds proportional to the number of scores: 1 s for 1024 x 1024 scores.
double sequential_seconds(const CourseCase& size) { return size.scores() / (1024.0 * 1024); }

// Returns the seconds of a kernel with one launch per sequence and tile of 32 keys. A launch has rows / 32 blocks and
// takes 1 s per 264 blocks, rounded up.
double launch_seconds(const CourseCase& size) {
  constexpr int kTile = 32, kBlocksAtOnce = 264;
  const int blocks = size.rows / kTile, rounds = (blocks + kBlocksAtOnce - 1) / kBlocksAtOnce;
  return 1.0 * size.batch * blocks * rounds;
}

constexpr int kBatch = 4, kRows = 4096;
const CourseCase kFull{"t", kBatch, kRows, 64};

TEST(FittingCase, IsTheFullCaseIfThatFits) {
  const CourseCase found = fitting_case(kFull, 64, sequential_seconds);
  EXPECT_EQ(sizes_of(found), BatchAndRows(kBatch, kRows));
  EXPECT_EQ(found.name, "t");
}

TEST(FittingCase, HasAllRowsAndFewerBatches) {
  EXPECT_EQ(sizes_of(fitting_case(kFull, 20, sequential_seconds)), BatchAndRows(1, kRows));
  EXPECT_EQ(sizes_of(fitting_case(kFull, 40, sequential_seconds)), BatchAndRows(2, kRows));
  EXPECT_EQ(sizes_of(fitting_case({"", 9600, 128, 64}, 100, sequential_seconds)), BatchAndRows(4096, 128));
}

TEST(FittingCase, HasFewerRowsIfOneBatchIsTooSlow) {
  EXPECT_EQ(sizes_of(fitting_case(kFull, 5, sequential_seconds)), BatchAndRows(1, 2048));
  EXPECT_EQ(sizes_of(fitting_case(kFull, 1, sequential_seconds)), BatchAndRows(1, 1024));
  EXPECT_EQ(sizes_of(fitting_case({"", 9600, 100, 64}, 1e-9, sequential_seconds)), BatchAndRows(1, 100));
}

// The smaller case has fewer sequences, not fewer rows. With fewer rows a launch would not fill the GPU, so the time
// scaled to the full case would be too long.
TEST(FittingCase, ScalesTimesOfLaunchesPerBatchExactly) {
  const CourseCase found = fitting_case(kFull, 300, launch_seconds);
  EXPECT_EQ(sizes_of(found), BatchAndRows(2, kRows));
  EXPECT_EQ(launch_seconds(found) * kFull.scores() / found.scores(), launch_seconds(kFull));
}

TEST(FittingCase, NeverTriesACaseThatExceedsTheLimit) {
  for (const double limit : {0.1, 1.0, 20.0}) {
    fitting_case(kFull, limit, [&](const CourseCase& size) {
      EXPECT_LE(sequential_seconds(size), limit) << size.batch << "," << size.rows;
      return sequential_seconds(size);
    });
  }
}

}  // namespace
}  // namespace strobe::lab
