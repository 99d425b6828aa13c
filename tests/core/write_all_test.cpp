// Tests short writes and errors of write_all().
#include "core/write_all.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "support/scratch.h"

namespace strobe::test {
namespace {

// A file at its size limit accepts part of the text; the next write fails.
TEST(WriteAll, ContinuesAfterAShortWrite) {
  const Scratch scratch;
  const std::string path = (scratch.path() / "file").string();
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(file, 0);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 3, .rlim_max = before.rlim_max};
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const int error = write_all(file, "text");
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(error, EFBIG);
  EXPECT_EQ(scratch.read("file"), "tex");
  EXPECT_EQ(write_all(file, "t and more"), 0);
  EXPECT_EQ(scratch.read("file"), "text and more");
  close(file);
}

TEST(WriteAll, ReportsTheError) {
  EXPECT_EQ(write_all(-1, "text"), EBADF);
  EXPECT_EQ(write_all(-1, ""), 0);
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  if (full < 0) GTEST_SKIP() << "no /dev/full";
  EXPECT_EQ(write_all(full, "text"), ENOSPC);
  close(full);
}

}  // namespace
}  // namespace strobe::test
