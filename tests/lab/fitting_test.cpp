// Tests how a smaller case is chosen in place of a slow one.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "lab/fitting.h"

namespace strobe::lab {
namespace {

using BatchAndRows = std::tuple<int, int>;  // batch, rows

BatchAndRows sizes_of(const CourseCase& size) { return {size.batch, size.rows}; }

// Time proportional to the number of scores: 1 s per batch of 1024 rows.
double in_turn(const CourseCase& size) { return size.scores() / (1024.0 * 1024); }

// One launch per batch and tile of keys, of rows / 32 blocks each. A launch takes 1 s if the GPU holds all its blocks
// at once.
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

// With fewer rows the blocks of a launch would fill less of the GPU, and the scaled time would be too long.
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
