// Tests results/escape: untrusted text remains plain text in HTML, scripts, Markdown and CSV.
#include "results/escape.h"

#include <gtest/gtest.h>

namespace strobe {
namespace {

TEST(Escape, MarkdownTextIsNotMarkup) {
  const struct {
    const char *text, *written;
  } table[] = {
      {"flash2: batch 16, 32 heads x 64", "flash2: batch 16, 32 heads x 64"},
      {"![x](http://evil/p.png)", R"(!\[x\](http\://evil/p.png))"},
      {"[a](b)", R"(\[a\](b))"},
      {"@octocat", "@&#8203;octocat"},
      {"a@b.org", "a@&#8203;b.org"},
      {"fixes #12, # 3", "fixes #&#8203;12, # 3"},
      {"GH-12 gh-3 H-4 GH-x", "GH-&#8203;12 gh-&#8203;3 H-4 GH-x"},
      {"www.evil.org", R"(www\.evil.org)"},
      {"HTTPS://evil", R"(HTTPS\://evil)"},
      {"<script>&lt;", "&lt;script&gt;&amp;lt;"},
      {"a|b", R"(a\|b)"},
      {"**b** _i_ `c` ~~s~~ $m$", R"(\*\*b\*\* \_i\_ \`c\` \~\~s\~\~ \$m\$)"},
      {"a\nb\rc\td", "a b c d"},
      {"\x1b[2J", R"(\\x1b\[2J)"},
      {"\xff", R"(\\xff)"},
      {R"(\)", R"(\\)"},
      {"-", "-"},
      {"10.05", "10.05"},
  };
  for (const auto& row : table) EXPECT_EQ(markdown_text(row.text), row.written);
}

TEST(Escape, AMarkdownLineIsNotABlock) {
  EXPECT_EQ(markdown_line("# title"), R"(\# title)");
  EXPECT_EQ(markdown_line("- item"), R"(\- item)");
  EXPECT_EQ(markdown_line("   --- "), R"(\--- )");
  EXPECT_EQ(markdown_line("==="), R"(\===)");
  EXPECT_EQ(markdown_line("1. item"), R"(1\. item)");
  EXPECT_EQ(markdown_line("12) item"), R"(12\) item)");
  EXPECT_EQ(markdown_line("Neoverse-V1, 2 threads"), "Neoverse-V1, 2 threads");
}

TEST(Escape, MarkdownTargetsAreFileNames) {
  EXPECT_EQ(markdown_target("ladder-2.svg"), "ladder-2.svg");
  EXPECT_EQ(markdown_target("a b)<x>.svg"), "a%20b%29%3Cx%3E.svg");
}

TEST(Escape, CsvTextIsNotAFormula) {
  const struct {
    const char *text, *written;
  } table[] = {{"flash2", "flash2"},
               {"=HYPERLINK(\"http://evil\")", "\"'=HYPERLINK(\"\"http://evil\"\")\""},
               {"+1", "\"'+1\""},
               {"-1", "\"'-1\""},
               {"@SUM(A1)", "\"'@SUM(A1)\""},
               {"\tx", "\"'\tx\""},
               {"\rx", "\"'\rx\""},
               {"a, b", "\"a, b\""},
               {"a\"b", "\"a\"\"b\""},
               {"a=b", "a=b"},
               {"\uff1d1+1", "\"'\uff1d1+1\""},
               {"\uff20SUM(A1)", "\"'\uff20SUM(A1)\""},
               {"a;=1+1", "\"a;=1+1\""},
               {"a\tb", "\"a\tb\""},
               {"", ""}};
  for (const auto& row : table) EXPECT_EQ(csv_text(row.text), row.written);
}

TEST(Escape, HtmlTextHasNoTagsAndScriptsNoEndTag) {
  EXPECT_EQ(escaped("<a href='x' title=\"y\">&\x1b\x7f"), "&lt;a href=&#39;x&#39; title=&quot;y&quot;&gt;&amp;  ");
  EXPECT_EQ(script_json("\"</script>\""), "\"\\u003c/script>\"");
}

}  // namespace
}  // namespace strobe
