// Tests the course's experiments. The ablation has one kernel per optimisation, which leaves that optimisation out;
// another experiment has one kernel per tile size. Compares all of them with float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "device/device_info.h"
#include "lab/experiments.h"
#include "lab/measure.h"

namespace strobe::lab {
namespace {

double error_of(Run run, const CourseCase& size) {
  const Subject subject(size);
  std::vector<float> o(static_cast<std::size_t>(subject.inputs.problem().elements()),
                       std::numeric_limits<float>::quiet_NaN());
  run(subject.inputs.problem(), o.data());
  return subject.answer.largest_error(o.data());
}

// Largest absolute errors. All kernels of the ablation except one are compiled with --use_fast_math.
constexpr double kTileClose = 2e-5;
constexpr double kVariantClose = 1e-3;

TEST(Ablation, LeavesOutEachIdeaOnceInTheOrderOfTheLadder) {
  if (!gpu_inventory().compiled_in) {
    EXPECT_TRUE(ablation().empty());
    EXPECT_TRUE(tiles().empty());
    return;
  }
  ASSERT_FALSE(ablation().empty());
  EXPECT_EQ(ablation()[0].without, "");
  std::vector<std::string_view> left_out, ladder;
  for (const Variant& variant : ablation().subspan(1)) left_out.push_back(variant.without);
  for (const Rung& rung : rungs()) {
    if (std::find(left_out.begin(), left_out.end(), rung.name) != left_out.end()) ladder.push_back(rung.name);
  }
  EXPECT_EQ(left_out, ladder);  // each is the name of a rung, an implementation of the ladder
  EXPECT_EQ(left_out.size(), 10u);
}

TEST(Tiles, AreDifferent) {
  std::set<std::pair<int, int>> sizes;
  for (const Tiles& tile : tiles()) sizes.emplace(tile.rows, tile.keys);
  EXPECT_EQ(sizes.size(), tiles().size());
}

class GpuExperiments : public testing::Test {
 protected:
  void SetUp() override {
    const GpuInventory inventory = gpu_inventory();
    if (inventory.gpus.empty()) GTEST_SKIP() << inventory.reason;
  }
};

TEST_F(GpuExperiments, AblationGivesRightResults) {
  for (const Variant& variant : ablation()) {
    for (const auto& [batch, rows, dim] : {std::tuple{1, 32, 32}, {3, 128, 64}, {9, 96, 32}}) {
      EXPECT_LT(error_of(variant.run, {"", batch, rows, dim}), kVariantClose)
          << "without " << variant.without << " " << batch << "," << rows << "," << dim;
    }
  }
}

TEST_F(GpuExperiments, TilesGiveRightResultsAndReportTheirSharedMemory) {
  for (const Tiles& tile : tiles()) {
    for (const auto& [batch, rows, dim] : {std::tuple{2, 128, 32}, {1, 256, 64}}) {
      const TileFacts facts = tile.facts(dim);
      EXPECT_GT(facts.shared_bytes, 0u);
      EXPECT_LE(facts.occupancy, 1.0);
      if (facts.blocks == 0) continue;  // this GPU has too little shared memory
      EXPECT_LT(error_of(tile.run, {"", batch, rows, dim}), kTileClose)
          << tile.rows << " x " << tile.keys << ", d " << dim;
    }
  }
}

}  // namespace
}  // namespace strobe::lab
