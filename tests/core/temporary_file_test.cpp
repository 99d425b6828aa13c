// Tests core/temporary_file: names of temporary files, and the removal of files that killed processes left.
#include "core/temporary_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/descriptor.h"
#include "support/scratch.h"

namespace strobe {
namespace {

TEST(TemporaryFile, ANameContainsItsTarget) {
  for (const std::string& target : {std::string("a"), std::string("run.json"), std::string(237, 'x')}) {
    const std::string name = temporary_name(target);
    EXPECT_EQ(name.size(), target.size() + 18) << name;
    EXPECT_EQ(stem_of_temporary(name), target);
  }
}

TEST(TemporaryFile, LongNamesFitAndKeepTheirTarget) {
  for (std::size_t length = 236; length <= 255; ++length) {
    const std::string target(length, 'x');
    const std::string name = temporary_name(target);
    EXPECT_LE(name.size(), 255u) << length;
    EXPECT_EQ(stem_of_temporary(name), temporary_stem(target)) << length;
  }
  EXPECT_NE(temporary_stem(std::string(254, 'x') + "a"), temporary_stem(std::string(254, 'x') + "b"));
  std::string umlauts;
  while (umlauts.size() < 250) umlauts += "ä";
  const std::string stem = temporary_stem(umlauts);
  EXPECT_EQ(stem.find('~') % 2, 0u) << "a character is cut in two";
}

TEST(TemporaryFile, OtherNamesHaveNoTarget) {
  for (const char* name : {"run.json.backup", "run.json.sha256", "step-00000020.safetensors.latest", "run.json.AbCd12",
                           "run.json.strobe-tmp-", "run.json.strobe-tmp-12345", "run.json.strobe-tmp-1234567",
                           "run.json.strobe-tmp-12345.", "run.json.strobe-tmp-12 456", "run.json.strobe-TMP-123456",
                           "run.jsonstrobe-tmp-123456", ".strobe-tmp-123456", "run.json.strobe-tmp-123456~", ""}) {
    EXPECT_FALSE(stem_of_temporary(name)) << name;
  }
}

TEST(TemporaryFile, OnlyStaleRegularFilesThatAreNotLockedAreRemoved) {
  const test::Scratch scratch;
  const auto path = [&](const char* name) { return (scratch.path() / name).string(); };
  for (const char* name : {"a.strobe-tmp-000001", "a.strobe-tmp-000002", "b.strobe-tmp-000003", "a.backup", "victim"}) {
    std::ofstream(path(name)) << name;
  }
  std::filesystem::create_directory(path("a.strobe-tmp-000004"));
  std::filesystem::create_symlink("victim", path("a.strobe-tmp-000005"));
  ASSERT_EQ(mkfifo(path("a.strobe-tmp-000006").c_str(), 0666), 0);
  const Descriptor held(open(path("a.strobe-tmp-000002").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(flock(held.get(), LOCK_EX | LOCK_NB), 0);
  remove_stale_temporaries(scratch.path().string(), [](std::string_view stem) { return stem == "a"; });
  EXPECT_FALSE(std::filesystem::exists(path("a.strobe-tmp-000001")));
  EXPECT_EQ(scratch.entries(), 7u);
  remove_stale_temporaries(path("missing"), [](std::string_view) { return true; });
}

}  // namespace
}  // namespace strobe
