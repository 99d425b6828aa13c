// Tests core/removal_list, the files that a signal handler removes.
#include "core/removal_list.h"

#include <gtest/gtest.h>

#include <deque>
#include <fstream>

#include "support/scratch.h"

namespace strobe {
namespace {

TEST(RemovalList, RemovesOnlyListedFiles) {
  const test::Scratch scratch;
  constexpr int kFiles = 100;
  std::deque<RemovalEntry> entries(kFiles);
  for (int i = 0; i < kFiles; ++i) {
    const std::string path = (scratch.path() / std::to_string(i)).string();
    std::ofstream(path) << i;
    entries[static_cast<std::size_t>(i)].set(path);
  }
  entries[7].clear();
  entries[8].set((scratch.path() / "9").string());
  remove_listed_files();
  EXPECT_EQ(scratch.entries(), 2u);
  EXPECT_EQ(scratch.read("7") + scratch.read("8"), "78");
}

TEST(RemovalList, AClearedEntryRemovesNothing) {
  const test::Scratch scratch;
  std::ofstream(scratch.path() / "a") << "a";
  { RemovalEntry().set((scratch.path() / "a").string()); }
  remove_listed_files();
  EXPECT_EQ(scratch.entries(), 1u);
}

}  // namespace
}  // namespace strobe
