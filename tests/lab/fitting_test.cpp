// Which smaller case is run in the place of a slow one.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "lab/fitting.h"

namespace strobe::lab {
namespace {

using BatchAndRows = std::tuple<int, int>;  // batch, rows

BatchAndRows sizes_of(const Case& size) { return {size.batch, size.rows}; }

// A batch after the other, 1 s for 1024 rows.
double in_turn(const Case& size) { return size.scores() / (1024.0 * 1024); }
// All batches at once.
double side_by_side(const Case& size) { return in_turn(size) / size.batch; }

constexpr int kBatch = 4, kRows = 4096;
const Case kFull{"t", kBatch, kRows, 64};

TEST(FittingCase, IsTheFullOneWhereThatFits) {
  const Case found = fitting_case(kFull, 64, in_turn);
  EXPECT_EQ(sizes_of(found), BatchAndRows(kBatch, kRows));
  EXPECT_EQ(found.name, "t");
}

TEST(FittingCase, HasAllBatchesAndFewerRows) {
  EXPECT_EQ(sizes_of(fitting_case(kFull, 20, in_turn)), BatchAndRows(kBatch, 2048));
  EXPECT_EQ(sizes_of(fitting_case(kFull, 1, in_turn)), BatchAndRows(kBatch, 512));
}

// With fewer batches the time of the full case would be taken for four times what it is.
TEST(FittingCase, ScalesTimesOfBatchesSideBySideRightly) {
  const Case found = fitting_case(kFull, 5, side_by_side);
  EXPECT_EQ(sizes_of(found), BatchAndRows(kBatch, 2048));
  EXPECT_EQ(side_by_side(found) * kFull.scores() / found.scores(), side_by_side(kFull));
  EXPECT_EQ(sizes_of(fitting_case(kFull, 17, side_by_side)), BatchAndRows(kBatch, kRows));
}

TEST(FittingCase, HasFewerBatchesWhereTheFewestRowsAreTooSlow) {
  EXPECT_EQ(sizes_of(fitting_case({"", 9600, 128, 64}, 100, in_turn)), BatchAndRows(4096, 128));
  EXPECT_EQ(sizes_of(fitting_case({"", 9600, 100, 64}, 1e-9, in_turn)), BatchAndRows(1, 100));
}

TEST(FittingCase, NeverTriesOneThatTakesLongerThanTheLimit) {
  for (const double limit : {0.1, 1.0, 20.0}) {
    fitting_case(kFull, limit, [&](const Case& size) {
      EXPECT_LE(in_turn(size), limit) << size.batch << "," << size.rows;
      return in_turn(size);
    });
  }
}

}  // namespace
}  // namespace strobe::lab
