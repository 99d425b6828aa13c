// Tests core/utf8, which truncates text between characters.
#include "core/utf8.h"

#include <gtest/gtest.h>

namespace strobe {
namespace {

TEST(Utf8, APrefixHasCompleteCharacters) {
  EXPECT_EQ(utf8_prefix("2026-11-18T", 10), "2026-11-18");
  EXPECT_EQ(utf8_prefix("short", 10), "short");
  EXPECT_EQ(utf8_prefix("2026-11-1\u022b", 10), "2026-11-1");
  EXPECT_EQ(utf8_prefix("2026-11-\u022b1", 10), "2026-11-\u022b");
  EXPECT_EQ(utf8_prefix("\U0001f600", 3), "");
}

}  // namespace
}  // namespace strobe
