// Tests --quiet and --color, and an option table: removing flags, and groups in its help.
#include "app/terminal.h"

#include <gtest/gtest.h>

#include "app/options.h"
#include "core/table_width.h"
#include "strobe/error.h"

namespace strobe {
namespace {

constexpr const char* kColored = "\033[33mnote:\033[0m one\n";

class CommonFlags : public testing::Test {
 protected:
  ~CommonFlags() override {
    set_quiet(false);
    set_color(Color::automatic);
  }
  static void parse(const std::vector<std::string_view>& words) { OptionTable().parse(words); }
};

TEST_F(CommonFlags, ColorAcceptsOnlyItsChoices) {
  parse({"--color", "always"});
  EXPECT_EQ(note_lines({"one"}), kColored);
  parse({"--colour=never"});
  EXPECT_EQ(note_lines({"one"}), "note: one\n");
  EXPECT_THROW(parse({"--color", "red"}), Error);
}

TEST_F(CommonFlags, QuietPrintsNoNotes) {
  parse({"--quiet"});
  EXPECT_TRUE(is_quiet());
  EXPECT_EQ(note_lines({"one"}), "");
}

TEST(FittingLine, IsWrappedOnATerminalOnly) {
  EXPECT_EQ(fitting_line("one two three"), "one two three\n");
  limit_table_width(10);
  EXPECT_EQ(fitting_line("one two three"), "one two\n  three\n");
  EXPECT_EQ(fitting_line("one two three", Line::command), "one two \\\n    three\n");
  EXPECT_EQ(fitting_line("one 'two three'", Line::command), "one 'two three'\n");
  EXPECT_EQ(note_lines({"one two"}), "note: one\n  two\n");
  limit_table_width(SIZE_MAX);
}

TEST_F(CommonFlags, AreAlsoFlagsOfTheProgram) {
  const std::vector<std::string_view> words{"--color", "always", "--quiet", "bench", "--quiet"};
  EXPECT_EQ(apply_common_flags(words), 3u);
  EXPECT_TRUE(is_quiet());
}

TEST_F(CommonFlags, AreNotFlagsOfAConfiguration) {
  const std::vector<std::string_view> words{"--quiet"};
  EXPECT_THROW(OptionTable("a configuration").parse(words), Error);
}

TEST(Options, AFlagIsRemovedWithItsValueUnderEveryName) {
  OptionTable table;
  std::string text;
  bool causal = false;
  table.add("impl", "NAME", "help", into(text, parse_text));
  table.add("seq_len", "N", "help", into(text, parse_text));
  table.add(make_switch("causal", "help", causal));
  const std::vector<std::string_view> words{"--attention", "a", "--causal", "--seq-len=1", "--impl=b"};
  EXPECT_EQ(table.without(words, "impl"), (std::vector<std::string_view>{"--causal", "--seq-len=1"}));
  EXPECT_EQ(table.without(words, "seq_len"),
            (std::vector<std::string_view>{"--attention", "a", "--causal", "--impl=b"}));
}

TEST(Options, HelpHasGroupsInTheOrderOfTheirFirstFlags) {
  OptionTable table;
  table.begin_group("problem");
  table.add("size", "N", "a", {});
  table.begin_group("output");
  table.add("file", "F", "b", {});
  table.begin_group("problem");
  table.add("mask", "M", "c", {});
  table.add("internal", "X", "", {});
  const std::string help = table.help();
  EXPECT_EQ(help.find("problem:\n  --size N  a\n  --mask M  c\n\noutput:\n  --file F  b\n\nIn flag names"), 0u) << help;
}

}  // namespace
}  // namespace strobe
