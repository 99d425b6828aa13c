// Tests fitting_case(), which replaces a case that takes too long by a smaller one.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "lab/fitting.h"

namespace strobe::lab {
namespace {

using BatchAndRows = std::tuple<int, int>;  // {batch, rows}

BatchAndRows sizes_of(const CourseCase& size) { return {size.batch, size.rows}; }

// Returns seconds proportional to the number of scores: 1 s per sequence of 1024 rows.
double in_turn(const CourseCase& size) { return size.scores() / (1024.0 * 1024); }

// Returns the seconds of a kernel with one launch per sequence and tile of 32 keys. A launch has rows / 32 blocks and
// takes 1 s per 264 blocks, rounded up.
double in_launches(const CourseCase& size) {
  constexpr int kTile = 32, kBlocksAtOnce = 264;
  const int blocks = size.rows / kTile, rounds = (blocks + kBlocksAtOnce - 1) / kBlocksAtOnce;
  return 1.0 * size.batch * blocks * rounds;
}

constexpr int kBatch = 4, kRows = 4096;
const CourseCase kFull{"t", kBatch, kRows, 64};

TEST(FittingCase, IsTheFullCaseIfThatFits) {
  const CourseCase found = fitting_case(kFull, 64, in_turn);
  EXPECT_EQ(sizes_of(found), BatchAndRows(kBatch, kRows));
  EXPECT_EQ(found.name, "t");
}

TEST(FittingCase, HasAllRowsAndFewerBatches) {
  EXPECT_EQ(sizes_of(fitting_case(kFull, 20, in_turn)), BatchAndRows(1, kRows));
  EXPECT_EQ(sizes_of(fitting_case(kFull, 40, in_turn)), BatchAndRows(2, kRows));
  EXPECT_EQ(sizes_of(fitting_case({"", 9600, 128, 64}, 100, in_turn)), BatchAndRows(4096, 128));
}

TEST(FittingCase, HasFewerRowsIfOneBatchIsTooSlow) {
  EXPECT_EQ(sizes_of(fitting_case(kFull, 5, in_turn)), BatchAndRows(1, 2048));
  EXPECT_EQ(sizes_of(fitting_case(kFull, 1, in_turn)), BatchAndRows(1, 1024));
  EXPECT_EQ(sizes_of(fitting_case({"", 9600, 100, 64}, 1e-9, in_turn)), BatchAndRows(1, 100));
}

// The smaller case has fewer sequences, not fewer rows. With fewer rows a launch would not fill the GPU, so the time
// scaled to the full case would be too long.
TEST(FittingCase, ScalesTimesOfLaunchesPerBatchExactly) {
  const CourseCase found = fitting_case(kFull, 300, in_launches);
  EXPECT_EQ(sizes_of(found), BatchAndRows(2, kRows));
  EXPECT_EQ(in_launches(found) * kFull.scores() / found.scores(), in_launches(kFull));
}

TEST(FittingCase, NeverTriesACaseThatExceedsTheLimit) {
  for (const double limit : {0.1, 1.0, 20.0}) {
    fitting_case(kFull, limit, [&](const CourseCase& size) {
      EXPECT_LE(in_turn(size), limit) << size.batch << "," << size.rows;
      return in_turn(size);
    });
  }
}

}  // namespace
}  // namespace strobe::lab
