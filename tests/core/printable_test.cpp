// Tests core/printable: untrusted text cannot control a terminal, and an error remains one short line.
#include "core/printable.h"

#include <gtest/gtest.h>

namespace strobe {
namespace {

using namespace std::string_view_literals;

TEST(Printable, KeepsPrintableText) {
  EXPECT_EQ(printable("--seq_len 5, \"größer\" \\"), "--seq_len 5, \"größer\" \\");
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable_value(""), "\"\"");
  EXPECT_EQ(printable_value("x"), "x");
}

TEST(Printable, EscapesControlBytesAndInvalidUtf8) {
  EXPECT_EQ(printable("\x7f"
                      "ELF\0\x1b[2J\n"sv),
            "\\x7fELF\\x00\\x1b[2J\\x0a");
  EXPECT_EQ(printable("\xff|\xc3|\xc2\x9b|\xc2\xa0"), "\\xff|\\xc3|\\xc2\\x9b|\xc2\xa0");
}

TEST(Printable, EscapesBidirectionalControls) {
  EXPECT_EQ(printable("a\u202eb"), "a\\xe2\\x80\\xaeb");
  EXPECT_EQ(printable("\u061c|\u200f|\u2066|\u2069"), "\\xd8\\x9c|\\xe2\\x80\\x8f|\\xe2\\x81\\xa6|\\xe2\\x81\\xa9");
  EXPECT_EQ(printable("\u2026 \u2065 \u206a \u05d0"), "\u2026 \u2065 \u206a \u05d0");
}

TEST(Printable, TruncatesLongText) {
  const std::string longest(80, 'a');
  EXPECT_EQ(printable(longest), longest);
  EXPECT_EQ(printable(longest + "a"), longest + "...");
  EXPECT_EQ(printable("aé\xc3\xa9z", 2), "aé...");  // no character is split
  EXPECT_LT(printable(std::string(1000, '\0')).size(), 90u);
}

}  // namespace
}  // namespace strobe
