// Tests core/write_target: the file that an output path leads to through links, and paths that cannot be written.
#include "core/write_target.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "strobe/error.h"
#include "support/scratch.h"

namespace strobe {
namespace {

namespace fs = std::filesystem;

std::string refusal(const std::string& path) {
  try {
    find_write_target(path, "--output " + path);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "accepted";
}

TEST(WriteTarget, ResolvesAChainOfLinksToAFileThatNeedNotExist) {
  const test::Scratch scratch;
  fs::create_directory(scratch.path() / "far");
  fs::create_symlink("second", scratch.path() / "first");
  fs::create_symlink(scratch.path() / "far" / "file", scratch.path() / "second");
  const WriteTarget missing = find_write_target((scratch.path() / "first").string(), "first");
  EXPECT_EQ(missing.path, (scratch.path() / "far" / "file").string());
  EXPECT_FALSE(missing.mode);
  std::ofstream(scratch.path() / "far" / "file") << "old";
  chmod((scratch.path() / "far" / "file").c_str(), 0640);
  const WriteTarget target = find_write_target((scratch.path() / "first").string(), "first");
  EXPECT_EQ(target.path, missing.path);
  EXPECT_EQ(target.mode, mode_t{0640});
  EXPECT_FALSE(target.is_device);
}

TEST(WriteTarget, DevicesAndDescriptorsKeepTheirNames) {
  const test::Scratch scratch;
  ASSERT_EQ(mkfifo((scratch.path() / "fifo").c_str(), 0600), 0);
  for (const std::string& path :
       {std::string("/dev/null"), std::string("/dev/stdout"), (scratch.path() / "fifo").string()}) {
    const WriteTarget target = find_write_target(path, path);
    EXPECT_TRUE(target.is_device) << path;
    EXPECT_EQ(target.path, path);
  }
}

TEST(WriteTarget, NamesTheReasonOfARejection) {
  const test::Scratch scratch;
  fs::create_symlink("round", scratch.path() / "round");
  std::ofstream(scratch.path() / "file") << "x";
  EXPECT_NE(refusal("").find("a file name is needed"), std::string::npos);
  EXPECT_NE(refusal(scratch.path().string()).find("is a folder"), std::string::npos);
  EXPECT_NE(refusal((scratch.path() / "round").string()).find("symbolic links"), std::string::npos);
  EXPECT_NE(refusal((scratch.path() / "file" / "below").string()).find("Not a directory"), std::string::npos);
}

}  // namespace
}  // namespace strobe
