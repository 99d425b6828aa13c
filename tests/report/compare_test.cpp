// report/compare: cells are matched by what they measure; the texts say what was found.
#include "report/compare.h"

#include <gtest/gtest.h>

#include <sstream>

#include "report/rows.h"
#include "strobe/error.h"

namespace strobe::report {
namespace {

using test::row_text;

Side side(const std::string& name, const std::vector<test::RowText>& rows) {
  std::string text;
  for (const test::RowText& row : rows) text += row_text(row) + "\n";
  return {name, parse_results(text, name)};
}

std::vector<test::RowText> launches(test::RowText row, double seconds, int count = 5) {
  row.forward = {seconds, 1.01 * seconds, 1.02 * seconds};
  return std::vector<test::RowText>(static_cast<std::size_t>(count), row);
}

std::vector<test::RowText> joined(std::vector<test::RowText> a, const std::vector<test::RowText>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(Compare, MatchesCellsAndGivesVerdicts) {
  const Side a = side("a", joined(launches({.seq = 128}, 0.01), launches({.seq = 256}, 0.02)));
  const Side b = side("b", joined(launches({.seq = 256}, 0.02), launches({.seq = 128}, 0.012)));
  const Comparison comparison = compare(a, b, 0.05);
  ASSERT_EQ(comparison.cells.size(), 2u);
  EXPECT_EQ(comparison.cells[0].config.seq, 128);
  ASSERT_EQ(comparison.cells[0].passes.size(), 1u);  // backward was not timed
  EXPECT_EQ(comparison.cells[0].passes[0].verdict, Verdict::slower);
  EXPECT_EQ(comparison.cells[1].passes[0].verdict, Verdict::same);
  EXPECT_EQ(comparison.cells[0].memory_ratio, 1.0);
  EXPECT_EQ(comparison.count(Verdict::slower), 1u);
  EXPECT_TRUE(comparison.notes.empty()) << comparison.notes[0];
}

TEST(Compare, SaysWhatHasNoPartnerWhatFailedAndWhatWeakensIt) {
  const Side a = side("a", {{.seq = 128}, {.seq = 256}, {.seq = 512}});
  const Side b = side("b", {{.seq = 128, .machine = "another"}, {.seq = 256, .status = "oom"}, {.seq = 64}});
  const Comparison comparison = compare(a, b, 0.05);
  EXPECT_EQ(comparison.cells.size(), 2u);
  EXPECT_EQ(comparison.only_a, std::vector<std::string>{"flash2: batch 2, 4 heads x 16, sequence 512, fp32"});
  EXPECT_EQ(comparison.only_b.size(), 1u);
  const std::string text = comparison_table(comparison);
  for (const char* part : {"status was ok, is oom", "1 cell in A only", "1 cell in B only", "different machines",
                           "only 1 launch of some cells; one launch proves no difference", "threshold 5 %"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(Compare, ATerminalOf140ColumnsHasRoomForTheTable) {
  const test::RowText one{
      .implementation = "torch-sdpa", .batch = 16, .seq = 16384, .heads = 32, .emb = 4096, .causal = true};
  const Side a = side("a", joined(launches(one, 1.5), launches({}, 1.5, 2)));
  const std::string text = comparison_table(compare(a, a, 0.05));
  const std::size_t begin = text.find("cell "), end = text.find("note: ");
  std::istringstream lines(text.substr(begin, end - begin));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 140u) << line;
  EXPECT_NE(text.find("  95 % interval  of memory  verdict\n"), std::string::npos) << text;
  EXPECT_NE(text.find("; threshold 5 %, 2 to 5 launches each\n"), std::string::npos) << text;
}

TEST(Compare, ATerminalGetsNoControlBytesOfAFile) {
  const Side a = side("a\033]0;x", launches({.implementation = "x\\u001b[31m", .machine = "m\\u0007"}, 0.01));
  const Side b = side("b", launches({.implementation = "x\\u001b[31m", .dtype = "fp32", .machine = "n\\u0007"}, 0.01));
  const std::string text = comparison_table(compare(a, b, 0.05));
  EXPECT_EQ(text.find_first_of("\033\007"), std::string::npos) << text;
  EXPECT_NE(text.find("x\\x1b[31m: batch 2"), std::string::npos) << text;
}

TEST(Compare, NothingInCommonIsRefused) {
  const Side a = side("a", {{.seq = 128}}), b = side("b", {{.seq = 256}});
  EXPECT_THROW(compare(a, b, 0.05), Error);
  const Side other = side("c", {{.implementation = "standard", .seq = 128}});
  EXPECT_THROW(compare(a, other, 0.05), Error);
}

TEST(Compare, MarkdownIsATableThatNamesCannotBreak) {
  const Side a = side("a", launches({.implementation = "x|<b>"}, 0.01)),
             b = side("b", launches({.implementation = "x|<b>"}, 0.02));
  const std::string text = comparison_markdown(compare(a, b, 0.05));
  EXPECT_TRUE(text.starts_with("### Slower\n")) << text;
  EXPECT_NE(text.find("| x\\|&lt;b&gt;: batch 2"), std::string::npos) << text;
  EXPECT_NE(text.find("| **slower** |"), std::string::npos) << text;
}

}  // namespace
}  // namespace strobe::report
