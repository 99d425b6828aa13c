// Tests core/file_set: either all files of a set are replaced, or none.
#include "core/file_set.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "strobe/error.h"
#include "support/scratch.h"

namespace strobe {
namespace {

namespace fs = std::filesystem;
using test::Scratch;

void put(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

TEST(FileSet, ReplacesAllOnCommit) {
  const Scratch scratch;
  fs::create_directory(scratch.path() / "sub");
  put(scratch.path() / "a", "old a");
  fs::permissions(scratch.path() / "a", fs::perms::owner_read | fs::perms::owner_write);
  FileSet set;
  set.add((scratch.path() / "a").string(), "new a");
  set.add((scratch.path() / "sub/b").string(), "new b");
  EXPECT_EQ(scratch.read("a"), "old a");
  EXPECT_FALSE(fs::exists(scratch.path() / "sub/b"));
  set.commit();
  EXPECT_EQ(scratch.read("a"), "new a");
  EXPECT_EQ(scratch.read("sub/b"), "new b");
  EXPECT_EQ(fs::status(scratch.path() / "a").permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(scratch.entries(), 2u);  // no temporary folder remains
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch.path() / "sub"), fs::directory_iterator()), 1);
}

TEST(FileSet, AFailedWriteLeavesEveryOldFile) {
  const Scratch scratch;
  put(scratch.path() / "a", "old a");
  put(scratch.path() / "b", "old b");
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{1000, limit.rlim_max};
  {
    FileSet set("--output");
    set.add((scratch.path() / "a").string(), "new a");
    setrlimit(RLIMIT_FSIZE, &small);
    EXPECT_THROW(set.add((scratch.path() / "b").string(), std::string(5000, 'x')), Error);
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(scratch.read("a"), "old a");
  EXPECT_EQ(scratch.read("b"), "old b");
  EXPECT_EQ(scratch.entries(), 2u);
}

// The third target becomes a folder after add(), so its rename fails after two files were replaced.
TEST(FileSet, AFailedRenameRestoresEveryOldFile) {
  const Scratch scratch;
  put(scratch.path() / "a", "old a");
  FileSet set("--output");
  for (const char* name : {"a", "b", "c", "d"}) set.add((scratch.path() / name).string(), "new");
  fs::create_directory(scratch.path() / "c");
  put(scratch.path() / "c/mine", "x");
  try {
    set.commit();
    ADD_FAILURE() << "renamed a file over a folder";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::runtime);
    EXPECT_EQ(std::string(error.what()).find("replaced already"), std::string::npos) << error.what();
  }
  EXPECT_EQ(scratch.read("a"), "old a");
  EXPECT_FALSE(fs::exists(scratch.path() / "b"));
  EXPECT_FALSE(fs::exists(scratch.path() / "d"));
  EXPECT_EQ(scratch.read("c/mine"), "x");
}

TEST(FileSet, RejectsAFolderAndAMissingFolderInOneLine) {
  const Scratch scratch;
  FileSet set("--output");
  set.add((scratch.path() / "a").string(), "a");
  for (const fs::path& path : {scratch.path(), scratch.path() / "none/file", fs::path("")}) {
    try {
      set.add(path.string(), "x");
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_TRUE(std::string(error.what()).starts_with("--output ")) << error.what();
    }
  }
}

TEST(FileSet, FollowsALinkAndKeepsIt) {
  const Scratch scratch;
  fs::create_directory(scratch.path() / "there");
  put(scratch.path() / "there/real", "old");
  fs::create_symlink("there/real", scratch.path() / "link");
  FileSet set;
  set.add((scratch.path() / "link").string(), "new");
  set.commit();
  EXPECT_TRUE(fs::is_symlink(scratch.path() / "link"));
  EXPECT_EQ(scratch.read("there/real"), "new");
}

TEST(FileSet, ManyFilesNeedFewDescriptors) {
  const Scratch scratch;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit few{32, limit.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  FileSet set;
  for (int i = 0; i < 100; ++i) set.add((scratch.path() / std::to_string(i)).string(), "x");
  set.commit();
  setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_EQ(scratch.entries(), 100u);
}

// A set removes the staging folders of killed processes in its folder, but not those in use or other folders.
TEST(FileSet, RemovesStagingThatIsNotInUse) {
  const Scratch scratch;
  const fs::path killed = scratch.path() / ".strobe-tmp-abcDEF", running = scratch.path() / ".strobe-tmp-123456",
                 shared = scratch.path() / ".strobe-tmp-shared", other = scratch.path() / ".strobe-tmp-notes-of-mine";
  for (const fs::path& folder : {killed, running, shared, other}) {
    fs::create_directory(folder);
    put(folder / "0", "x");
  }
  put(shared / "notes.txt", "mine");
  const int descriptor = open(running.c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(flock(descriptor, LOCK_EX), 0);
  FileSet set;
  set.add((scratch.path() / "a").string(), "a");
  close(descriptor);
  EXPECT_FALSE(fs::exists(killed));
  EXPECT_TRUE(fs::exists(running / "0"));
  EXPECT_TRUE(fs::exists(shared / "notes.txt"));
  EXPECT_TRUE(fs::exists(other / "0"));
}

}  // namespace
}  // namespace strobe
