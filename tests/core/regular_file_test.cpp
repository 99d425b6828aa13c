// Tests opening regular files, and that links, FIFOs and folders are rejected.
#include "core/regular_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "strobe/error.h"
#include "support/scratch.h"

namespace strobe {
namespace {

class RegularFileTest : public testing::Test {
 protected:
  std::string path(const char* name) const { return (scratch_.path() / name).string(); }

  void expect_refusal(const char* name, const std::string& reason) const {
    for (const int flags : {O_RDONLY, O_WRONLY, O_RDWR, O_RDWR | O_CREAT, O_WRONLY | O_CREAT | O_APPEND | O_TRUNC}) {
      try {
        open_regular(path(name), flags, "--output x");
        ADD_FAILURE() << name << " " << flags;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        EXPECT_EQ(error.what(), "--output x: is " + reason + "; valid: a regular file");
      }
    }
  }

  const test::Scratch scratch_;
};

TEST_F(RegularFileTest, OpensAndCreates) {
  const Descriptor created = open_regular(path("a"), O_RDWR | O_CREAT, "a");
  ASSERT_EQ(write(created.get(), "text", 4), 4);
  const Descriptor again = open_regular(path("a"), O_RDONLY, "a");
  char text[5] = "";
  EXPECT_EQ(read(again.get(), text, 4), 4);
  EXPECT_STREQ(text, "text");
  EXPECT_NE(fcntl(again.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(RegularFileTest, LinksFifosAndFoldersAreRejectedAtOnce) {
  std::ofstream(path("victim")) << "text";
  std::filesystem::create_symlink("victim", path("link"));
  std::filesystem::create_symlink("missing", path("dangling"));
  std::filesystem::create_directory(path("folder"));
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0666), 0);
  expect_refusal("link", "a symbolic link");
  expect_refusal("dangling", "a symbolic link");
  expect_refusal("folder", "a folder");
  expect_refusal("fifo", "not a regular file");
  EXPECT_EQ(scratch_.read("victim"), "text");
  EXPECT_FALSE(std::filesystem::exists(path("missing")));
  EXPECT_THROW(refuse_link(path("dangling"), "x"), Error);
  EXPECT_NO_THROW(refuse_link(path("victim"), "x"));
}

TEST_F(RegularFileTest, NamesTheReason) {
  try {
    open_regular(path("missing"), O_RDONLY, "x");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "x: cannot be read: No such file or directory");
  }
}

}  // namespace
}  // namespace strobe
