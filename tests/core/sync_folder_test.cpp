// Tests core/sync_folder: the folder that contains a path, and fsync of it.
#include "core/sync_folder.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "support/scratch.h"

namespace strobe {
namespace {

TEST(SyncFolder, FolderOfAPath) {
  EXPECT_EQ(folder_of("a"), ".");
  EXPECT_EQ(folder_of("/a"), "/");
  EXPECT_EQ(folder_of("b/c/a"), "b/c");
}

TEST(SyncFolder, FailuresAreReportedUnlessTheFileSystemCannotSync) {
  const test::Scratch scratch;
  EXPECT_EQ(sync_folder(scratch.path().string()), 0);
  EXPECT_EQ(sync_folder(std::string("/proc")), 0) << "EINVAL is not a failure";
  EXPECT_EQ(sync_folder((scratch.path() / "missing").string()), ENOENT);
  EXPECT_EQ(sync_folder(-1), EBADF);
}

}  // namespace
}  // namespace strobe
