// Tests the folder of a training run: its lock, which checkpoints it keeps, and which it renames to .abandoned.
#include "lm/train/checkpoint_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "strobe/error.h"
#include "support/scratch.h"

namespace strobe::lm {
namespace {

class CheckpointFolderTest : public testing::Test {
 protected:
  void add(const std::string& name) const { std::ofstream(scratch_.path() / name) << name; }
  bool has(const std::string& name) const { return std::filesystem::exists(scratch_.path() / name); }
  std::string refusal(CheckpointFolder::Use use) const {
    try {
      const CheckpointFolder folder(scratch_.path().string(), use);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return error.what();
    }
  }

  const test::Scratch scratch_;
};

const char* const kBackups[] = {"step-00000020.safetensors.backup", "step-00000020.safetensors.sha256",
                                "step-00000020.safetensors.latest", "run.json.backup", "run.json.folder"};

TEST_F(CheckpointFolderTest, TheUsersFilesRemain) {
  add("run.json");
  for (const char* name : kBackups) add(name);
  std::filesystem::create_directory(scratch_.path() / "run.json.strobe-tmp-abcdef");
  add("run.json.strobe-tmp-ABCDEF");
  add("step-00000020.safetensors.strobe-tmp-ABCDEF");
  add("other.strobe-tmp-ABCDEF");
  EXPECT_EQ(refusal(CheckpointFolder::Use::resume), "");
  for (const char* name : kBackups) EXPECT_TRUE(has(name)) << name;
  EXPECT_TRUE(has("run.json.strobe-tmp-abcdef"));
  EXPECT_TRUE(has("other.strobe-tmp-ABCDEF"));
  EXPECT_FALSE(has("run.json.strobe-tmp-ABCDEF"));
  EXPECT_FALSE(has("step-00000020.safetensors.strobe-tmp-ABCDEF"));
}

TEST_F(CheckpointFolderTest, AFolderWithABackupIsNotEmpty) {
  for (const char* name : kBackups) {
    add(name);
    EXPECT_NE(refusal(CheckpointFolder::Use::fresh).find("is not empty"), std::string::npos) << name;
    EXPECT_TRUE(has(name));
    std::filesystem::remove(scratch_.path() / name);
  }
  add("step-00000020.safetensors.strobe-tmp-ABCDEF");
  EXPECT_EQ(refusal(CheckpointFolder::Use::fresh), "");
  EXPECT_EQ(scratch_.entries(), 0u);
}

TEST_F(CheckpointFolderTest, ADamagedLogIsRejected) {
  std::ofstream(scratch_.path() / "steps.jsonl") << "{\"step\":1}\n{\"step\":\n";
  EXPECT_NE(refusal(CheckpointFolder::Use::resume).find("steps.jsonl: line 2 is damaged"), std::string::npos);
}

TEST_F(CheckpointFolderTest, ALinkedRunFileIsRejected) {
  for (const char* name : {"steps.jsonl", "run.json"}) {
    std::filesystem::create_symlink("missing", scratch_.path() / name);
    EXPECT_NE(refusal(CheckpointFolder::Use::resume).find("is a symbolic link"), std::string::npos) << name;
    std::filesystem::remove(scratch_.path() / name);
  }
}

using Steps = std::vector<std::int64_t>;

TEST(KeepCheckpoints, TheNewestGoodCheckpointRemains) {
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

  // The arguments are count, step and finite_step. Checkpoints before finite_step are known to be good.
  folder.keep_newest(1, 8, 8);
  EXPECT_EQ(checkpoint_steps(path), (Steps{6, 8}));
  folder.keep_newest(1, 8, 9);
  EXPECT_EQ(checkpoint_steps(path), Steps{8});

  with({2, 4, 6, 8});
  folder.keep_newest(2, 8, 3);  // steps from 4 on were skipped
  EXPECT_EQ(checkpoint_steps(path), (Steps{2, 6, 8}));
  folder.keep_newest(2, 8, 1);  // none is known to be good
  EXPECT_EQ(checkpoint_steps(path), (Steps{6, 8}));
}

}  // namespace
}  // namespace strobe::lm
