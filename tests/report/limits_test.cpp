// Tests the limits files of `strobe compare --require`: their format, and the verdicts on constructed rows.
#include "report/limits.h"

#include <gtest/gtest.h>

#include "report/rows.h"
#include "strobe/error.h"
#include "support/corpus.h"
#include "support/fuzz_limits.h"

namespace strobe::report {
namespace {

using test::row_text;

std::vector<Cell> cells_in(const std::vector<test::RowText>& rows) {
  std::string text;
  for (const test::RowText& row : rows) text += row_text(row) + "\n";
  return cells_of(parse_results(text, "rows"));
}

Judgement judged(const std::string& limits, const std::vector<test::RowText>& rows) {
  const std::vector<Cell> cells = cells_in(rows);
  return judge(parse_limits("mine", limits), cells, nullptr, Estimate::median);
}

// Returns the verdict on each limit, in the order of the limits.
std::vector<std::string> verdicts(const std::string& limits, const std::vector<test::RowText>& rows) {
  const Judgement judgement = judged(limits, rows);
  std::vector<std::string> all;
  for (const auto& row : judgement.tables.back().cells) all.push_back(row.back());
  return all;
}

std::string limits_refusal(const std::string& text) {
  try {
    parse_limits("mine", text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "accepted";
}

using Texts = std::vector<std::string>;

TEST(Limits, RequirementsApplyToTheCellsLineBeforeThem) {
  const Limits limits =
      parse_limits("mine",
                   "about some\nimpl a  # remark\nrequire each ms < 2\ncells d64 causal\n\nimpl b\n"
                   "require 90% speedup:x of forward,total >= 1.5 or share:product > 0.9\nshow peak_mb\n");
  EXPECT_EQ(limits.about, "some");
  ASSERT_EQ(limits.requirements.size(), 3u);
  EXPECT_EQ(limits.requirements[0].implementation, "a");
  EXPECT_TRUE(limits.requirements[0].cells.empty());
  const Requirement& second = limits.requirements[1];
  EXPECT_EQ(second.implementation, "b");
  EXPECT_EQ(second.cells_text, "d64 causal");
  EXPECT_EQ(second.text, "90% speedup:x of forward,total >= 1.5 or share:product > 0.9");
  EXPECT_EQ(second.share, 0.9);
  EXPECT_EQ(second.passes, (std::vector<Pass>{Pass::forward, Pass::total}));
  ASSERT_EQ(second.bounds.size(), 2u);
  EXPECT_EQ(second.bounds[0].reference, "x");
  EXPECT_TRUE(second.bounds[1].is_strict);
  EXPECT_EQ(limits.requirements[2].kind, Requirement::Kind::shown);
  EXPECT_FALSE(needs_comparison(limits));
  EXPECT_TRUE(needs_comparison(parse_limits("mine", "require each change:low <= 1")));
}

TEST(Limits, BadLinesAreReportedWithWhatIsValid) {
  const struct {
    const char* text;
    const char* says;
  } table[] = {
      {"", "must have a \"require\" or \"show\" line"},
      {"limit x", "line 1: \"limit\"; valid: about, impl, cells, require, show, #"},
      {"impl", "line 1: ends too early; valid next: the name of an implementation"},
      {"impl a b", "line 1: \"b\"; valid: one implementation"},
      {"cells B3", "line 1: \"B3\": not part of a case; "},
      {"require", "line 1: ends too early; valid next: each, geomean, or a percentage such as 90%"},
      {"require 90", "line 1: \"90\"; valid: each, geomean, or a percentage such as 90%"},
      {"require 101% ms < 1", "line 1: \"101%\"; valid: each, "},
      {"require each speed:x > 1", "line 1: \"speed:x\"; valid: ms, speedup:IMPL, "},
      {"require each speedup: > 1", "line 1: \"speedup:\"; valid: ms, "},
      {"require each ms of sideways < 1", "line 1: \"sideways\"; valid: forward, backward, total, step"},
      {"\nrequire each ms = 1", "line 2: \"=\"; valid: >=, >, <=, <"},
      {"require each ms < 1x", "line 1: \"1x\"; valid: a number above 0"},
      {"require each ms < -1", "line 1: \"-1\"; valid: a number above 0"},
      {"require each ms < 1 and", "line 1: \"and\"; valid: or, and another limit"},
      {"require geomean ms < 1 or peak_mb < 2", "line 1: \"or\"; valid: one limit of a geometric mean"},
      {"show ms < 1", "line 1: \"<\"; valid: the end of the line"},
  };
  for (const auto& row : table)
    EXPECT_EQ(limits_refusal(row.text).find(std::string("mine: ") + row.says), 0u) << limits_refusal(row.text);
}

test::RowText timed(const std::string& implementation, double seconds, int seqlen_q = 128) {
  return {.implementation = implementation, .seqlen_q = seqlen_q, .forward = {seconds, seconds, seconds}};
}

TEST(Limits, ARatioIsRelativeToTheNamedPeerOfTheSameConfiguration) {
  const std::vector<test::RowText> rows = {timed("a", 0.01), timed("peer", 0.015), timed("a", 0.01, 256),
                                           timed("peer", 0.03, 256)};
  const std::string limits =
      "impl a\nrequire each speedup:peer >= 1.5\nrequire each speedup:peer > 1.5\n"
      "require geomean speedup:peer >= 2.1\nrequire geomean speedup:peer >= 2.2\n"
      "require 50% speedup:peer >= 2\ncells s256\nrequire each speedup:peer >= 2\nshow ms\n";
  EXPECT_EQ(verdicts(limits, rows),
            (Texts{"ok", "MISSED by 1, worst: batch 2, 4 heads x 16, sequence 128, fp32, forward", "ok", "MISSED", "ok",
                   "ok", ""}));
  const Judgement judgement = judged(limits, rows);
  EXPECT_EQ(judgement.missed, 2u);
  EXPECT_EQ(judgement.tables[0].columns.back(), "verdict");
  ASSERT_EQ(judgement.tables[0].cells.size(), 2u);  // limits do not apply to the cells of the implementation `peer`
  EXPECT_EQ(judgement.tables[0].cells[0].back(), "MISSED");
  EXPECT_EQ(judgement.tables[0].cells[1].back(), "ok");
  EXPECT_EQ(judgement.tables[1].cells[2][2], "2.12");  // geometric mean of 1.5 and 3
}

TEST(Limits, ARatioToAListIsRelativeToTheBestThatRan) {
  std::vector<test::RowText> rows = {timed("a", 0.01),
                                     timed("slow", 0.03),
                                     timed("fast", 0.02),
                                     {.implementation = "absent", .status = "unsupported"}};
  const auto missed = [&](const std::string& bound) { return judged("impl a\nrequire each " + bound, rows).missed; };
  EXPECT_EQ(missed("speedup:slow,absent,fast >= 2"), 0u);
  EXPECT_EQ(missed("speedup:slow,fast,absent > 2"), 1u);
  EXPECT_EQ(missed("speedup:absent,slow >= 3"), 0u);
  EXPECT_EQ(missed("speedup:none,absent >= 0.1"), 1u);
  EXPECT_EQ(verdicts("impl a\nrequire each speedup:none,absent >= 0.1", rows)[0],
            "MISSED: batch 2, 4 heads x 16, sequence 128, fp32, forward: none was not measured");
}

TEST(Limits, OneOfSeveralBoundsIsEnough) {
  const std::vector<test::RowText> rows = {timed("a", 0.01), timed("peer", 0.012)};
  EXPECT_EQ(judged("impl a\nrequire each speedup:peer >= 1.5 or ms <= 10\n", rows).missed, 0u);
  EXPECT_EQ(judged("impl a\nrequire each speedup:peer >= 1.5 or ms < 10\n", rows).missed, 1u);
  EXPECT_EQ(judged("impl a\nrequire each speedup:none >= 1.5 or ms <= 10\n", rows).missed, 0u);
}

TEST(Limits, MissingValuesFailUnlessThePeerRanOutOfMemory) {
  const std::string limits = "impl a\nrequire each speedup:peer >= 0.1\nrequire geomean speedup:peer >= 0.1\n";
  const std::vector<test::RowText> alone = {timed("a", 0.01)};
  EXPECT_EQ(verdicts(limits, alone)[0],
            "MISSED: batch 2, 4 heads x 16, sequence 128, fp32, forward: peer was not measured");
  EXPECT_EQ(judged(limits, alone).missed, 2u);
  std::vector<test::RowText> rows = {timed("a", 0.01), {.implementation = "peer", .status = "unsupported"}};
  EXPECT_NE(verdicts(limits, rows)[1].find("MISSED: "), std::string::npos);
  EXPECT_NE(verdicts(limits, rows)[0].find(": peer: why"), std::string::npos) << verdicts(limits, rows)[0];
  rows[1].status = "oom";
  EXPECT_EQ(verdicts(limits, rows), (Texts{"ok: the reference does not fit", "ok: the reference does not fit"}));
  rows[0].status = "oom";
  EXPECT_EQ(judged(limits, rows).missed, 2u);
  EXPECT_EQ(judged("impl a\nrequire each ms of backward < 5\n", alone).missed, 1u);  // backward was not timed
}

TEST(Limits, AGroupWithoutCellsIsReportedAndLimitsWithoutAnyCellRejected) {
  const std::vector<test::RowText> rows = {timed("a", 0.01)};
  EXPECT_EQ(verdicts("cells bf16\nrequire each ms < 1\ncells fp32\nrequire each ms < 100\n", rows),
            (Texts{"no cells", "ok"}));
  EXPECT_THROW(judged("cells bf16\nrequire each ms < 1\n", rows), Error);
}

TEST(Limits, MemoryIsPerCell) {
  const std::vector<test::RowText> rows = {timed("a", 0.01), timed("peer", 0.012)};
  EXPECT_EQ(judged("impl a\nrequire each peak_mb <= 4.5\nrequire each memory:peer <= 1\n", rows).missed, 0u);
  EXPECT_EQ(judged("impl a\nrequire each peak_mb < 4.5\nrequire each memory:peer < 1\n", rows).missed, 2u);
}

TEST(Limits, TheEstimateMayBeTheSmallestSample) {
  test::RowText row = timed("a", 0.01);
  row.forward = {0.02, 0.02, 0.009};
  const std::vector<Cell> cells = cells_in({row});
  const Limits limits = parse_limits("mine", "require each ms < 10\n");
  EXPECT_EQ(judge(limits, cells, nullptr, Estimate::median).missed, 1u);
  EXPECT_EQ(judge(limits, cells, nullptr, Estimate::least).missed, 0u);
}

TEST(Limits, AChangeIsJudgedByItsInterval) {
  std::string text;
  for (const double seconds : {0.01, 0.0101, 0.0102, 0.01, 0.0101, 0.01, 0.0101, 0.01, 0.0102, 0.0101}) {
    text += row_text(timed("a", seconds)) + "\n";
  }
  const Side side{"rows", parse_results(text, "rows")};
  const auto [odd, even] = split_launches(side);
  EXPECT_EQ(odd.results.size(), 5u);
  const Comparison comparison = compare(odd, even, 0.05);
  const std::vector<Cell> cells = cells_of(side.results);
  const auto missed = [&](const std::string& limits) {
    return judge(parse_limits("mine", limits), cells, &comparison, Estimate::median).missed;
  };
  EXPECT_EQ(missed("require each change:low >= 0.9546\nrequire each change:high <= 1.05\n"), 0u);
  EXPECT_EQ(missed("require each change:low >= 1.02\nrequire each change:high <= 0.98\n"), 2u);
  EXPECT_THROW(split_launches({"rows", {side.results[0]}}), Error);
}

// Replays the seeds of the fuzz harness.
TEST(LimitsFuzz, OnlyValidSeedsAreAccepted) {
  const std::vector<std::string> valid{"hopper", "made_up", "noise"};
  EXPECT_EQ(test::accepted_seeds("limits", test::fuzz_limits), valid);
}

}  // namespace
}  // namespace strobe::report
