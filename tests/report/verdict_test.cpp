// Tests which implementation the verdict names, its factors, and its certainty.
#include "report/verdict.h"

#include <gtest/gtest.h>

#include <cmath>

#include "report/rows.h"

namespace strobe::report {
namespace {

using test::row_text;
using test::RowText;

Standing standing_of_rows(const std::vector<RowText>& rows) {
  std::string text;
  for (const RowText& row : rows) text += row_text(row) + "\n";
  const std::vector<Cell> cells = cells_of(parse_results(text, "rows"));
  return standing_of(cells, SeriesNames(cells));
}

std::vector<double> around(double seconds) { return {0.98 * seconds, 0.99 * seconds, seconds, 1.01 * seconds}; }

TEST(Verdict, OneProblemHasTheIntervalOfItsFactor) {
  const Standing standing = standing_of_rows(
      {{.implementation = "standard", .forward = around(0.03)}, {.implementation = "flash2", .forward = around(0.01)}});
  EXPECT_EQ(standing.leader, "flash2");
  ASSERT_EQ(standing.leads.size(), 1u);
  EXPECT_NEAR(standing.leads[0].factor, 3, 1e-9);
  EXPECT_NEAR(standing.leads[0].low, 3 * 0.98 / 1.01, 1e-9);
  EXPECT_NEAR(standing.leads[0].high, 3 * 1.01 / 0.98, 1e-9);
  EXPECT_TRUE(standing.is_clear());
  EXPECT_EQ(verdict_text(standing),
            "flash2 is fastest: 3.00x as fast as standard (2.91 to 3.09); forward, 1 launch, 95 % intervals");
}

TEST(Verdict, OverlappingIntervalsAreNotCertain) {
  const Standing standing = standing_of_rows({{.implementation = "standard", .forward = around(0.0101)},
                                              {.implementation = "flash2", .forward = around(0.01)}});
  EXPECT_FALSE(standing.is_clear());
  EXPECT_NE(verdict_text(standing).find("flash2 has the least time, but not with certainty: 1.01x"), std::string::npos)
      << verdict_text(standing);
}

TEST(Verdict, ASingleSampleIsNotCertain) {
  const Standing standing = standing_of_rows(
      {{.implementation = "standard", .forward = {0.03}}, {.implementation = "flash2", .forward = {0.01}}});
  EXPECT_EQ(standing.leads.at(0).certain, 0u);
  EXPECT_FALSE(standing.is_clear());
}

TEST(Verdict, SeveralProblemsHaveAGeometricMeanAndARange) {
  const Standing standing = standing_of_rows({{.implementation = "standard", .seqlen_q = 128, .forward = around(0.02)},
                                              {.implementation = "flash2", .seqlen_q = 128, .forward = around(0.01)},
                                              {.implementation = "standard", .seqlen_q = 256, .forward = around(0.32)},
                                              {.implementation = "flash2", .seqlen_q = 256, .forward = around(0.04)},
                                              {.implementation = "standard", .seqlen_q = 64, .forward = around(0.001)},
                                              {.implementation = "flash2", .seqlen_q = 64, .forward = around(0.004)}});
  EXPECT_EQ(standing.won, 2u);
  const Lead& lead = standing.leads.at(0);
  EXPECT_NEAR(lead.factor, std::cbrt(2 * 8 * 0.25), 1e-9);
  EXPECT_NEAR(lead.low, 0.25, 1e-9);
  EXPECT_NEAR(lead.high, 8, 1e-9);
  EXPECT_EQ(lead.certain, 2u);
  EXPECT_EQ(lead.contrary, 1u);
  const std::string text = verdict_text(standing);
  EXPECT_NE(text.find("flash2 is fastest in 2 of 3 problems: 1.59x as fast as standard (0.25 to 8.00; certain in 2 of "
                      "3, slower in 1)"),
            std::string::npos)
      << text;
}

TEST(Verdict, AnImplementationThatRanOutOfMemoryHasFewerProblems) {
  const Standing standing = standing_of_rows({{.implementation = "standard", .seqlen_q = 128, .forward = around(0.02)},
                                              {.implementation = "flash2", .seqlen_q = 128, .forward = around(0.01)},
                                              {.implementation = "standard", .seqlen_q = 256, .status = "oom"},
                                              {.implementation = "flash2", .seqlen_q = 256, .forward = around(0.04)}});
  EXPECT_EQ(standing.problems, 2u);
  EXPECT_EQ(standing.won, 2u);
  EXPECT_EQ(standing.leads.at(0).problems, 1u);
}

TEST(Verdict, OneImplementationHasNoVerdict) {
  const Standing standing = standing_of_rows({{.forward = around(0.01)}, {.seqlen_q = 256, .forward = around(0.01)}});
  EXPECT_EQ(standing.leader, "flash2");
  EXPECT_TRUE(standing.leads.empty());
  EXPECT_EQ(verdict_text(standing), "");
}

}  // namespace
}  // namespace strobe::report
