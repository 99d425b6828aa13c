// Checkpoints that --keep leaves: the newest, and the newest that is known to be good.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lm/train/checkpoint_folder.h"
#include "support/scratch.h"

namespace strobe::lm {
namespace {

using Steps = std::vector<std::int64_t>;

TEST(KeepCheckpoints, TheNewestGoodOneStays) {
  const test::Scratch scratch;
  const std::string path = (scratch.path() / "run").string();
  const CheckpointFolder folder(path, CheckpointFolder::Use::fresh);
  const auto with = [&](const Steps& steps) {
    for (const std::int64_t step : checkpoint_steps(path)) std::filesystem::remove(folder.file(step));
    for (const std::int64_t step : steps) std::ofstream(folder.file(step)) << "x";
  };
  EXPECT_EQ(folder.newest_good(7), std::nullopt);
  with({2, 4, 6, 8});
  EXPECT_EQ(folder.newest_good(2), std::nullopt);
  EXPECT_EQ(folder.newest_good(5), 4);
  EXPECT_EQ(folder.newest_good(CheckpointFolder::kAllGood), 8);

  folder.keep_newest(1, 8, 8);  // step 8 was finite: 6 is good, 8 not yet
  EXPECT_EQ(checkpoint_steps(path), (Steps{6, 8}));
  folder.keep_newest(1, 8, 9);
  EXPECT_EQ(checkpoint_steps(path), Steps{8});

  with({2, 4, 6, 8});
  folder.keep_newest(2, 8, 3);  // steps from 4 on were skipped
  EXPECT_EQ(checkpoint_steps(path), (Steps{2, 6, 8}));
  folder.keep_newest(2, 8, 1);  // none is good
  EXPECT_EQ(checkpoint_steps(path), (Steps{6, 8}));
}

}  // namespace
}  // namespace strobe::lm
