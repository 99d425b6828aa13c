// Tests core/atomic_file. At any time the file has its old or its complete new contents. No temporary file remains, and
// bad paths fail before anything is written.
#include "core/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <vector>

#include "strobe/error.h"
#include "support/scratch.h"

namespace strobe {
namespace {

class AtomicFileTest : public testing::Test {
 protected:
  std::string read(const std::string& name) const { return scratch_.read(name); }
  std::size_t entries() const { return scratch_.entries(); }

  const test::Scratch scratch_;
  const std::filesystem::path& folder_ = scratch_.path();
};

TEST_F(AtomicFileTest, ReplacesOnlyOnCommit) {
  std::ofstream(folder_ / "a.json") << "old";
  AtomicFile file((folder_ / "a.json").string());
  EXPECT_EQ(read("a.json"), "old");
  file.commit("new");
  EXPECT_EQ(read("a.json"), "new");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFileTest, AcceptsContentsInChunks) {
  AtomicFile file((folder_ / "a.json").string());
  file.write("one ");
  file.write("two");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a.json"));
  file.commit();
  EXPECT_EQ(read("a.json"), "one two");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFileTest, ReportsAFullDisk) {
  const AtomicFile file((folder_ / "a.json").string());
  EXPECT_NO_THROW(file.check_room(1));
  EXPECT_THROW(file.check_room(std::uint64_t{1} << 62), Error);
  EXPECT_NO_THROW(AtomicFile("/dev/null").check_room(std::uint64_t{1} << 62));
}

TEST_F(AtomicFileTest, LeavesNothingWithoutCommit) {
  { AtomicFile file((folder_ / "a.json").string()); }
  EXPECT_EQ(entries(), 0u);
}

TEST_F(AtomicFileTest, RemoveTemporaryFilesRemovesEveryOpenFile) {
  std::vector<std::unique_ptr<AtomicFile>> files;
  for (int i = 0; i < 20; ++i) {
    files.push_back(std::make_unique<AtomicFile>((folder_ / std::to_string(i)).string()));
    EXPECT_TRUE(std::filesystem::exists(files.back()->temporary()));
  }
  EXPECT_EQ(entries(), 20u);
  remove_temporary_files();
  EXPECT_EQ(entries(), 0u);
}

bool has_unnamed_files(const std::filesystem::path& folder) {
  return static_cast<bool>(Descriptor(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666)));
}

TEST_F(AtomicFileTest, SigkillLeavesNothingBeforeCommit) {
  if (!has_unnamed_files(folder_)) GTEST_SKIP() << "this file system has no O_TMPFILE";
  std::ofstream(folder_ / "existing") << "old";
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    AtomicFile fresh((folder_ / "fresh").string()), existing((folder_ / "existing").string());
    fresh.write("half");
    existing.write("half");
    if (write(ready[1], "x", 1) == 1) pause();
    _exit(1);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  for (const int end : ready) close(end);
  EXPECT_EQ(entries(), 1u);
  EXPECT_EQ(read("existing"), "old");
}

TEST_F(AtomicFileTest, TheNextWriterRemovesStaleTemporaryFilesOfItsTarget) {
  for (const char* name : {"a.json.strobe-tmp-AAAAAA", "b.json.strobe-tmp-AAAAAA", "a.json.backup", "a.json.AAAAAA",
                           "a.json.strobe-tmp-AAAAAAA"}) {
    std::ofstream(folder_ / name) << name;
  }
  AtomicFile held((folder_ / "a.json").string());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a.json.strobe-tmp-AAAAAA"));
  EXPECT_EQ(entries(), 4u);
  const std::string temporary = held.temporary();
  AtomicFile((folder_ / "a.json").string()).commit("other");
  EXPECT_TRUE(std::filesystem::exists(temporary)) << "a running process has locked it";
  held.commit("held");
  EXPECT_EQ(read("a.json"), "held");
  EXPECT_EQ(entries(), 5u);
}

TEST_F(AtomicFileTest, TwoWritersOfOneNewFileBothSucceed) {
  AtomicFile first((folder_ / "a.json").string()), second((folder_ / "a.json").string());
  first.commit("first");
  second.commit("second");
  EXPECT_EQ(read("a.json"), "second");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFileTest, NamesOfUpTo255CharactersWork) {
  for (std::size_t length = 230; length <= 255; ++length) {
    const std::string path = (folder_ / std::string(length, 'n')).string();
    for (const char* contents : {"created", "replaced", "named"}) {
      AtomicFile file(path);
      if (contents == std::string("named")) {
        const std::string temporary = file.temporary();
        EXPECT_TRUE(std::filesystem::exists(temporary)) << length;
        EXPECT_NE(temporary, path);
      }
      file.commit(contents);
      EXPECT_EQ(read(std::string(length, 'n')), contents) << length;
    }
    std::filesystem::remove(path);
    EXPECT_EQ(entries(), 0u);
  }
  EXPECT_THROW(AtomicFile((folder_ / std::string(256, 'n')).string()), Error) << "before any work";
}

TEST_F(AtomicFileTest, LinksAreRejectedIfTheProgramChoseTheName) {
  std::ofstream(folder_ / "victim") << "old";
  std::filesystem::create_symlink("victim", folder_ / "link");
  std::filesystem::create_symlink("missing", folder_ / "dangling");
  for (const char* name : {"link", "dangling"}) {
    try {
      AtomicFile file((folder_ / name).string(), "--json-dir", AtomicFile::Links::refuse);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find("is a symbolic link"), std::string::npos) << error.what();
    }
  }
  AtomicFile((folder_ / "victim").string(), "--json-dir", AtomicFile::Links::refuse).commit("new");
  EXPECT_EQ(read("victim"), "new");
}

TEST_F(AtomicFileTest, LinksRemainAndTheirTargetIsReplaced) {
  std::filesystem::create_directory(folder_ / "far");
  std::filesystem::create_symlink("middle.json", folder_ / "link.json");
  std::filesystem::create_symlink(folder_ / "far" / "a.json", folder_ / "middle.json");
  for (const char* contents : {"created", "replaced"}) {  // the links dangle until the first commit
    AtomicFile((folder_ / "link.json").string()).commit(contents);
    EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link.json"));
    EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "middle.json"));
    EXPECT_EQ(read("far/a.json"), contents);
  }
  EXPECT_EQ(entries(), 3u);
  std::filesystem::create_symlink("round.json", folder_ / "round.json");
  EXPECT_THROW(AtomicFile((folder_ / "round.json").string()), Error);
}

TEST_F(AtomicFileTest, DevicesAreWrittenTo) {
  AtomicFile("/dev/null").commit("gone");
  EXPECT_FALSE(std::filesystem::is_regular_file("/dev/null"));
}

TEST_F(AtomicFileTest, PlainFilesUnderDevAreReplacedToo) {
  std::string name = "/dev/shm/strobe-atomic-XXXXXX";
  const int descriptor = mkstemp(name.data());
  if (descriptor < 0) GTEST_SKIP() << "no /dev/shm to write to";
  close(descriptor);
  for (const char* contents : {"first", "second"}) AtomicFile(name).commit(contents);
  std::ostringstream text;
  text << std::ifstream(name).rdbuf();
  std::filesystem::remove(name);
  EXPECT_EQ(text.str(), "second");
}

TEST_F(AtomicFileTest, OpenDescriptorsAreAppendedTo) {
  std::ofstream(folder_ / "a.json") << "old ";
  const int descriptor = open((folder_ / "a.json").c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  AtomicFile("/dev/fd/" + std::to_string(descriptor)).commit("and new");
  close(descriptor);
  EXPECT_EQ(read("a.json"), "old and new");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFileTest, TwoNamesOfOneFileAreRejected) {
  std::ofstream(folder_ / "a") << "a";
  std::filesystem::create_symlink("a", folder_ / "link");
  const auto name = [&](const char* entry) { return (folder_ / entry).string(); };
  const auto is_refused = [&](const std::string& path, const std::string& other) {
    try {
      check_apart("--trace", path, "--output", other);
      return false;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find("--trace " + path), std::string::npos) << error.what();
      return true;
    }
  };
  EXPECT_TRUE(is_refused(name("a"), name("a")));
  EXPECT_TRUE(is_refused(name("link"), name("a")));
  EXPECT_TRUE(is_refused(name("new"), name("./new"))) << "neither exists";
  EXPECT_FALSE(is_refused(name("b"), name("a")));
  EXPECT_FALSE(is_refused("-", "-"));
  EXPECT_FALSE(is_refused("", ""));
  EXPECT_FALSE(is_refused("/dev/null", "/dev/null"));
}

TEST_F(AtomicFileTest, KeepsThePermissionsOfTheReplacedFile) {
  using std::filesystem::perms;
  const std::filesystem::path path = folder_ / "a.json";
  std::ofstream(path) << "secret";
  std::filesystem::permissions(path, perms::owner_read | perms::owner_write);
  AtomicFile(path.string()).commit("new");
  EXPECT_EQ(std::filesystem::status(path).permissions(), perms::owner_read | perms::owner_write);
  const mode_t mask = umask(027);
  AtomicFile((folder_ / "b.json").string()).commit("new");
  umask(mask);
  EXPECT_EQ(std::filesystem::status(folder_ / "b.json").permissions(),
            perms::owner_read | perms::owner_write | perms::group_read);
}

TEST_F(AtomicFileTest, RejectsFoldersAndMissingFolders) {
  for (const std::string& path : {folder_.string(), (folder_ / "missing" / "a.json").string(), std::string()}) {
    try {
      AtomicFile file(path);
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace strobe
