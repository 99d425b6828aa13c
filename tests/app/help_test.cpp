// Tests the layout of help texts: columns, line wrapping and width.
#include "app/help.h"

#include <gtest/gtest.h>

#include "app/options.h"
#include "app/program.h"

namespace strobe {
namespace {

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  for (const std::string& line : split(text, '\n')) widest = std::max(widest, line.size());
  return widest;
}

TEST(Help, EntriesStartInTheSameColumn) {
  EXPECT_EQ(help_entry("--seed N", "random seed", 12), "  --seed N  random seed\n");
  EXPECT_EQ(help_entry("--seed N", "", 12), "  --seed N  \n");
  EXPECT_EQ(help_entry("--a-very-long-flag VALUE", "random seed", 12),
            "  --a-very-long-flag VALUE\n            random seed\n");
  const std::string entry = help_entry("--seed N", std::string(40, 'a') + " " + std::string(40, 'b'), 12);
  EXPECT_EQ(entry, "  --seed N  " + std::string(40, 'a') + "\n            " + std::string(40, 'b') + "\n");
}

TEST(Help, AnExactFitIsNotWrapped) {
  const std::string fits = std::string(40, 'a') + " " + std::string(39, 'b');
  EXPECT_EQ(wrap_help(fits + "\n"), fits + "\n");
  EXPECT_EQ(wrap_help(fits + "b\n"), std::string(40, 'a') + "\n" + std::string(40, 'b') + "\n");
}

TEST(Help, AWideParagraphIsWrapped) {
  const std::string wide = std::string(60, 'a') + " " + std::string(30, 'b');
  EXPECT_EQ(wrap_help("x\ny\n\n" + wide + "\nc d\n\n"),
            "x\ny\n\n" + std::string(60, 'a') + "\n" + std::string(30, 'b') + " c d\n\n");
}

TEST(Help, AnIndentedLineContinuesBelowItsText) {
  const std::string a(50, 'a'), b(50, 'b');
  EXPECT_EQ(wrap_help("  name  " + a + " " + b + "\n"), "  name  " + a + "\n        " + b + "\n");
  EXPECT_EQ(wrap_help("  " + a + " " + b + "\n"), "  " + a + "\n      " + b + "\n");
  EXPECT_EQ(wrap_help("usage: " + a + " " + b + "\n"), "usage: " + a + "\n    " + b + "\n");
}

TEST(Help, AnEntryIsWrappedTogetherWithItsContinuationLines) {
  const std::string a(40, 'a'), b(40, 'b');
  EXPECT_EQ(wrap_help("  name  " + a + " " + b + "\n        c\n        d\n  other  e\n"),
            "  name  " + a + "\n        " + b + " c d\n  other  e\n");
  EXPECT_EQ(wrap_help("  name  " + a + "\n        " + b + " " + a + "\n"),
            "  name  " + a + "\n        " + b + "\n        " + a + "\n");
}

TEST(Help, AnExampleIsWrappedWithBackslashes) {
  const std::string a(40, 'a'), b(40, 'b');
  EXPECT_EQ(wrap_help("  strobe " + a + " " + b + " " + b + "\n"),
            "  strobe " + a + " \\\n      " + b + " \\\n      " + b + "\n");
}

TEST(Help, TablesFitEightyColumns) {
  OptionTable table;
  const std::string text = "a description that is far too long for one line of a terminal with eighty columns, twice";
  table.add("seed", "N", text, {});
  table.add("a-flag-with-a-long-name", "VALUE|OTHER", text, {}, {"short"});
  const Command commands[] = {{"bench", text.c_str(), nullptr}, {"report", "pages", nullptr}};
  for (const std::string& help : {table.help(), lines_of(commands)}) {
    EXPECT_LE(widest_line(help), kHelpColumns) << help;
    EXPECT_EQ(wrap_help(help), help);
  }
  EXPECT_NE(table.help().find("(also --short)"), std::string::npos) << table.help();
}

}  // namespace
}  // namespace strobe
