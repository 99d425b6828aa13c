// Tests core/file_names, which lists the entries of a folder. A missing folder and a plain file are errors.
#include "core/file_names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace strobe {
namespace {

TEST(FileNames, ListsEveryEntryOfAFolder) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "strobe-file-names";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder / "inner");
  std::ofstream(folder / ".hidden").put('x');
  std::ofstream(folder / "plain").put('x');
  std::error_code error;
  std::vector<std::string> names = file_names(folder.string(), error);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{".hidden", "inner", "plain"}));
  EXPECT_FALSE(error);
  EXPECT_TRUE(file_names((folder / "missing").string(), error).empty());
  EXPECT_EQ(error, std::errc::no_such_file_or_directory);
  EXPECT_TRUE(file_names((folder / "plain").string(), error).empty());
  EXPECT_EQ(error, std::errc::not_a_directory);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace strobe
