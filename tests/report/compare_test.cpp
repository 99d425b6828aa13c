// Tests report/compare: matching of cells in two result files, verdicts, and the texts of a comparison.
#include "report/compare.h"

#include <gtest/gtest.h>

#include <sstream>

#include "core/table_width.h"
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
  const Side a = side("a", joined(launches({.seqlen_q = 128}, 0.01), launches({.seqlen_q = 256}, 0.02)));
  const Side b = side("b", joined(launches({.seqlen_q = 256}, 0.02), launches({.seqlen_q = 128}, 0.012)));
  const Comparison comparison = compare(a, b, 0.05);
  ASSERT_EQ(comparison.cells.size(), 2u);
  EXPECT_EQ(comparison.cells[0].config.seqlen_q, 128);
  ASSERT_EQ(comparison.cells[0].passes.size(), 1u);  // backward was not timed
  EXPECT_EQ(comparison.cells[0].passes[0].verdict, Verdict::slower);
  EXPECT_EQ(comparison.cells[1].passes[0].verdict, Verdict::same);
  EXPECT_EQ(comparison.cells[0].memory_ratio, 1.0);
  EXPECT_EQ(comparison.count(Verdict::slower), 1u);
  EXPECT_TRUE(comparison.notes.empty()) << comparison.notes[0];
}

// Returns the table, the notes and the summary as the program prints them into a pipe.
std::string whole_text(const Comparison& comparison) {
  std::string text = comparison_table(comparison);
  for (const std::string& note : comparison_notes(comparison)) text += "note: " + note + "\n";
  return text + comparison_summary(comparison) + "\n";
}

TEST(Compare, ReportsUnmatchedFailedAndWeakCells) {
  const Side a = side("a", {{.seqlen_q = 128}, {.seqlen_q = 256}, {.seqlen_q = 512}});
  const Side b =
      side("b", {{.seqlen_q = 128, .machine = "another"}, {.seqlen_q = 256, .status = "oom"}, {.seqlen_q = 64}});
  const Comparison comparison = compare(a, b, 0.05);
  EXPECT_EQ(comparison.cells.size(), 2u);
  EXPECT_EQ(comparison.only_a.cells, std::vector<std::string>{"flash2: batch 2, 4 heads x 16, sequence 512, fp32"});
  EXPECT_EQ(comparison.only_b.cells.size(), 1u);
  const std::string text = whole_text(comparison);
  for (const char* part :
       {"status was ok, is oom", "1 cell in A only", "; nearest in B: seq_len 128 instead of 512", "1 cell in B only",
        "different machines", "only 1 launch of some cells; one launch proves no difference", "threshold 5 %"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(Compare, TheTableFits140Columns) {
  const test::RowText one{
      .implementation = "torch-sdpa", .batch = 16, .seqlen_q = 16384, .heads = 32, .emb = 4096, .causal = true};
  const Side a = side("a", joined(launches(one, 1.5), launches({}, 1.5, 2)));
  const std::string text = whole_text(compare(a, a, 0.05));
  const std::size_t begin = text.find("cell "), end = text.find("note: ");
  std::istringstream lines(text.substr(begin, end - begin));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 140u) << line;
  EXPECT_NE(text.find("  95 % interval  memory B / A  verdict\n"), std::string::npos) << text;
  EXPECT_NE(text.find("; threshold 5 %, 2 to 5 launches each\n"), std::string::npos) << text;
}

TEST(Compare, ANarrowTerminalShowsTheCellAboveItsPasses) {
  const Side a = side("a", launches({.batch = 16, .seqlen_q = 16384, .heads = 32, .emb = 4096}, 1.5));
  limit_table_width(80);
  const std::string text = comparison_table(compare(a, a, 0.05));
  limit_table_width(SIZE_MAX);
  EXPECT_NE(text.find("\nflash2: batch 16, 32 heads x 128, sequence 16384, fp32\n  forward "), std::string::npos)
      << text;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(Compare, ATerminalGetsNoControlBytesOfAFile) {
  const Side a = side("a\033]0;x", launches({.implementation = "x\\u001b[31m", .machine = "m\\u0007"}, 0.01));
  const Side b = side("b", launches({.implementation = "x\\u001b[31m", .dtype = "fp32", .machine = "n\\u0007"}, 0.01));
  const std::string text = whole_text(compare(a, b, 0.05));
  EXPECT_EQ(text.find_first_of("\033\007"), std::string::npos) << text;
  EXPECT_NE(text.find("x\\x1b[31m: batch 2"), std::string::npos) << text;
}

std::string refusal(const std::vector<test::RowText>& a, const std::vector<test::RowText>& b) {
  try {
    compare(side("a", a), side("b", b), 0.05);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(Compare, NothingInCommonIsRejectedWithTheKeysThatDiffer) {
  const std::string none = "a and b have no cell in common; ";
  EXPECT_EQ(refusal({{.threads = 2}}, {{.threads = 1}}), none + "threads: 2 in A, 1 in B");
  EXPECT_EQ(refusal({{.seqlen_q = 128}, {.seqlen_q = 64}}, {{.implementation = "standard", .seqlen_q = 128}}),
            none + "implementation: flash2 in A, standard in B");
  EXPECT_EQ(
      refusal({{.dtype = "fp16", .threads = 2}, {.dtype = "fp32", .threads = 2}}, {{.dtype = "bf16", .threads = 1}}),
      none + "dtype: \"fp16\", \"fp32\" in A, \"bf16\" in B; threads: 2 in A, 1 in B");
}

TEST(Compare, WithoutADisjointKeyTheNearestCellsAreCompared) {
  const std::vector<test::RowText> a = {{.batch = 1, .seqlen_q = 64, .heads = 1}, {.batch = 2, .seqlen_q = 128}};
  const std::vector<test::RowText> b = {{.batch = 2, .seqlen_q = 64, .heads = 4},
                                        {.batch = 1, .seqlen_q = 128, .heads = 1}};
  EXPECT_EQ(refusal(a, b), "a and b have no cell in common; seq_len: 64 in A, 128 in B");
}

TEST(Compare, MarkdownTablesSurviveAnyName) {
  const Side a = side("a", launches({.implementation = "x|<b>"}, 0.01)),
             b = side("b", launches({.implementation = "x|<b>"}, 0.02));
  const std::string text = comparison_markdown(compare(a, b, 0.05));
  EXPECT_TRUE(text.starts_with("### Slower\n")) << text;
  EXPECT_NE(text.find("| x\\|&lt;b&gt;: batch 2"), std::string::npos) << text;
  EXPECT_NE(text.find("| **slower** |"), std::string::npos) << text;
}

}  // namespace
}  // namespace strobe::report
