// Tests core/mapped_file: a file mapped into memory, and files that cannot be mapped.
#include "core/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "strobe/error.h"
#include "support/scratch.h"

namespace strobe {
namespace {

TEST(MappedFile, HasTheContentsOfTheFile) {
  const test::Scratch scratch;
  const std::string path = (scratch.path() / "a").string();
  std::ofstream(path) << "some bytes";
  EXPECT_EQ(MappedFile(path, "--data a").text(), "some bytes");
  std::ofstream(path).flush();
  EXPECT_EQ(MappedFile(path, "--data a").bytes(), 0u);
}

TEST(MappedFile, RejectsFilesThatAreNotRegular) {
  const test::Scratch scratch;
  const std::string folder = scratch.path().string();
  ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);
  for (const std::string& path : {folder + "/missing", folder, folder + "/pipe"}) {
    try {
      MappedFile file(path, "--data x");
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_EQ(std::string(error.what()).find("--data x: "), 0u) << error.what();
    }
  }
}

}  // namespace
}  // namespace strobe
