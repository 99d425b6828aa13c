// Tests report/problem_tables: tables with one row per problem and one column per implementation.
#include "report/problem_tables.h"

#include <gtest/gtest.h>

#include "report/rows.h"

namespace strobe::report {
namespace {

using test::row_text;

std::vector<Cell> cells_of_text(const std::string& text) { return cells_of(parse_results(text, "f")); }

TEST(ProblemTables, ARowPerProblemAndAColumnPerImplementation) {
  std::string text;
  for (const int emb : {64, 128}) {
    for (const int seqlen_q : {256, 512}) {
      const double seconds = 1e-3 * seqlen_q * emb / 64;
      text += row_text({.seqlen_q = seqlen_q, .emb = emb, .forward = {seconds, seconds, seconds}});
      if (seqlen_q == 256)
        text += row_text({.implementation = "standard", .seqlen_q = seqlen_q, .emb = emb, .forward = {4, 4, 4}});
      if (seqlen_q == 512)
        text += row_text({.implementation = "standard", .seqlen_q = seqlen_q, .emb = emb, .status = "oom"});
    }
  }
  const std::string tables = problem_tables(cells_of_text(text));
  EXPECT_EQ(tables.find("## Forward, ms: fp32, causal off, batch 2, heads 4\n\n"
                        "| D | sequence | flash2 | standard |\n| ---: | ---: | ---: | ---: |\n"
                        "| 16 | 256 | 256 | 4000 |\n| 16 | 512 | 512 | oom |\n"
                        "| 32 | 256 | 512 | 4000 |\n| 32 | 512 | 1024 | oom |\n\n"
                        "## Memory saved for backward, MiB: fp32, causal off, batch 2, heads 4\n\n"),
            0u)
      << tables;
  EXPECT_NE(tables.find("## Peak memory, MiB: "), std::string::npos) << tables;
  EXPECT_EQ(tables.find("## Backward"), std::string::npos) << "no backward was timed: " << tables;
}

TEST(ProblemTables, TypesAndMasksHaveSeparateTables) {
  const std::string text =
      row_text({.dtype = "bf16"}) + row_text({.causal = true, .dtype = "bf16"}) + row_text({.dtype = "fp32"});
  const std::string tables = problem_tables(cells_of_text(text));
  for (const char* heading : {"## Forward, ms: bf16, causal off, batch 2, heads 4, D 16, sequence 128\n",
                              "## Forward, ms: bf16, causal on,", "## Forward, ms: fp32, causal off,"}) {
    EXPECT_NE(tables.find(heading), std::string::npos) << heading << tables;
  }
  EXPECT_NE(tables.find("| flash2 |\n| ---: |\n| 10.0 |\n"), std::string::npos) << tables;
}

TEST(ProblemTables, ProblemsMissingInAnImplementationLeaveGaps) {
  const std::string text = row_text({}) + row_text({.implementation = "standard", .seqlen_q = 256});
  const std::string tables = problem_tables(cells_of_text(text));
  EXPECT_NE(tables.find("| sequence | flash2 | standard |"), std::string::npos) << tables;
  EXPECT_NE(tables.find("| 128 | 10.0 |  |\n| 256 |  | 10.0 |\n"), std::string::npos) << tables;
}

TEST(MapTables, HaveTheFieldsOfTheMaps) {
  std::string text;
  for (const int seqlen_q : {256, 512}) {
    text += row_text({.seqlen_q = seqlen_q, .forward = {0.01, 0.01, 0.01}});
    text += row_text({.implementation = "standard", .seqlen_q = seqlen_q, .forward = {0.02, 0.02, 0.02}});
  }
  const std::vector<Cell> cells = cells_of_text(text);
  const std::string tables = map_tables(make_figures(cells));
  EXPECT_NE(tables.find("## Speed-up, forward: fp32, causal off, flash2 over standard\n\n"), std::string::npos)
      << tables;
  EXPECT_NE(tables.find("| 256 | 512 |\n| --- | ---: | ---: |\n| B 2, 4 x 16 | 2.00 | 2.00 |\n"), std::string::npos)
      << tables;
  EXPECT_NE(tables.find("| B 2, 4 x 16 | 100 % | 100 % |\n"), std::string::npos) << tables;
  EXPECT_EQ(tables.find("What ran"), std::string::npos) << tables;
}

}  // namespace
}  // namespace strobe::report
