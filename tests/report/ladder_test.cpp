// Tests the row reader, tables and charts of `strobe ladder`. Its attention programs, from sequential CPU code to the
// fastest GPU kernel, are called rungs. strobe-lab measures them and writes one row per run.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <fstream>
#include <string>
#include <vector>

#include "report/ladder.h"
#include "report/plot_scale.h"
#include "report/svg.h"
#include "strobe/error.h"
#include "support/corpus.h"
#include "support/fuzz_ladder_rows.h"
#include "support/scratch.h"

namespace strobe::report {
namespace {

constexpr const char* kCase28 = R"("case": {"name": "t28", "batch": 4, "rows": 16384, "dim": 64}, "flops": 2.7e11)";
constexpr const char* kSmall = R"("case": {"name": "", "batch": 1, "rows": 128, "dim": 64}, "flops": 4194304)";

Json rung(const std::string& name, const char* size, double seconds, const std::string& more = "") {
  return Json::parse(fmt::format(
      R"({{"kind": "rung", "rung": "{}", "idea": "one", "device": "gpu", {}, "status": "ok", "max_error": 2e-6,
           "seconds": {}, "split": {{"allocate": 0.001, "create": 0, "pin": 0, "to_device": 0.002, "kernel": {},
           "to_host": 0.001}}{}}})",
      name, size, seconds, seconds / 2, more));
}

Json refused(const std::string& name, const char* size) {
  return Json::parse(fmt::format(
      R"({{"kind": "rung", "rung": "{}", "idea": "one", "device": "gpu", {}, "status": "refused", "reason": "no GPU"}})",
      name, size));
}

TEST(LadderTables, ShowSpeedUpsAndFailures) {
  const std::vector<Json> rows = {
      rung("sequential", kCase28, 80,
           R"(, "scaled_from": )" + std::string(R"({"name": "", "batch": 1, "rows": 512, "dim": 64})")),
      refused("five-kernels", kCase28), rung("shared", kCase28, 4), rung("padded", kCase28, 2)};
  const std::vector<Table> tables = ladder_tables(rows);
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].title, "t28 (4, 16384, 64)");
  const auto cell = [&](std::size_t row, const std::string& column) {
    const auto found = std::find(tables[0].columns.begin(), tables[0].columns.end(), column);
    EXPECT_NE(found, tables[0].columns.end()) << column;
    return tables[0].cells[row][static_cast<std::size_t>(found - tables[0].columns.begin())];
  };
  EXPECT_EQ(cell(0, "remark"), "scaled from (1, 512, 64)");
  EXPECT_EQ(cell(1, "remark"), "refused: no GPU");
  EXPECT_EQ(cell(1, "total ms"), "-");
  EXPECT_EQ(cell(1, "GFLOP/s"), "-");
  EXPECT_EQ(cell(2, "x sequential"), "20.0");
  EXPECT_EQ(cell(2, "x before"), "20.0");  // speedup over the previous rung that has a time
  EXPECT_EQ(cell(3, "x before"), "2.00");
  EXPECT_EQ(cell(3, "GFLOP/s"), "270");  // from the kernel's time
  EXPECT_NE(tables_text(tables).find("max error"), std::string::npos);
  EXPECT_NE(tables_markdown(tables).find("| shared |"), std::string::npos);
}

TEST(LadderTables, GpuRungsHaveNoRowsOnAMachineWithoutAGpu) {
  std::vector<Json> rows = {refused("shared", kCase28), refused("padded", kCase28)};
  rows.insert(rows.begin(), rung("sequential", kCase28, 80).set("device", "cpu"));
  const Table table = ladder_tables(rows)[0];
  EXPECT_EQ(table.title, "t28 (4, 16384, 64); 2 rungs need a GPU: no GPU");
  ASSERT_EQ(table.cells.size(), 1u);
  EXPECT_EQ(table.columns.size(), 7u) << "no columns of copies";
  rows.push_back(rung("pinned", kCase28, 4));
  EXPECT_EQ(ladder_tables(rows)[0].cells.size(), 4u) << "one GPU rung has run";
}

TEST(LadderTables, PrintNoControlCharacters) {
  const std::vector<Json> rows = {refused("shared\\u001b[2J", kSmall)};
  const std::string text = tables_text(ladder_tables(rows));
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
  EXPECT_NE(text.find("shared\\x1b[2J"), std::string::npos) << text;
}

TEST(LadderRows, KeepTheValuesOfTablesAndCharts) {
  const test::Scratch scratch;
  const std::string path = (scratch.path() / "rows.jsonl").string();
  Json long_row = rung("sequential", kCase28, 80);
  long_row.set("samples(s)", Json::array({80, 81, 82}));
  const std::vector<Json> rows = {long_row, refused("shared", kSmall)};
  std::ofstream(path) << rows[0].dump() << "\n" << rows[1].dump() << "\n";
  const std::vector<Json> read = read_ladder_rows(path);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(tables_text(ladder_tables(read)), tables_text(ladder_tables(rows)));
  EXPECT_EQ(read[0].find("samples(s)"), nullptr);
}

TEST(LadderRows, NumbersOutOfRangeAreRejected) {
  const test::Scratch scratch;
  const std::string path = (scratch.path() / "rows.jsonl").string();
  const auto refusal = [&](Json row) -> std::string {
    std::ofstream(path) << row.dump() << "\n";
    try {
      read_ladder_rows(path);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const Json row = rung("sequential", kSmall, 1);
  EXPECT_EQ(refusal(row), "");
  for (const double seconds : {1e-320, 0.0, -1.0, 1e306}) {
    EXPECT_EQ(refusal(Json(row).set("seconds", seconds)),
              fmt::format("{}, line 1: not a row of strobe ladder: seconds is {}; valid: 1e-12 to 1e+09 seconds", path,
                          seconds));
  }
  EXPECT_NE(refusal(Json(row).set("split", Json::object({{"kernel", 1e300}}))), "");
  EXPECT_NE(refusal(Json(row).set("flops", 1e300)), "");
  EXPECT_NE(refusal(Json(row).set("case", Json::parse(R"({"name":"","batch":0,"rows":1,"dim":1})"))), "");
  EXPECT_NE(refusal(Json(row).set("case", Json::parse(R"({"name":"","batch":9000000000000000000,"rows":1,"dim":1})"))),
            "");
  const Json tiles = Json::parse(
      R"({"kind":"tiles","case":{"name":"","batch":1,"rows":1,"dim":1},"status":"ok","flops":1,"blocks":2,"br":1,"bc":1})");
  EXPECT_NE(refusal(tiles).find("no key \"shared_bytes\""), std::string::npos) << refusal(tiles);
}

TEST(LadderRows, TooManyCasesAreRejected) {
  const test::Scratch scratch;
  const std::string path = (scratch.path() / "rows.jsonl").string();
  std::ofstream file(path);
  for (int i = 1; i <= 257; ++i) {
    file << Json(refused("shared", kSmall))
                .set("case", Json::object({{"name", ""}, {"batch", i}, {"rows", 1}, {"dim", 1}}))
                .dump()
         << "\n";
  }
  file.close();
  try {
    read_ladder_rows(path);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              path + ", line 257: 257 rows of 257 cases and 1 rungs; valid: up to 10000 of 256 and 256");
  }
}

TEST(LadderTables, MarkdownOfARowIsNotMarkup) {
  const std::vector<Json> rows = {refused("<script>![x](y)@me\\u001b", kSmall)};
  const std::string text = tables_markdown(ladder_tables(rows));
  for (const char* part : {"<script", "![x]", "@me", "\x1b"}) EXPECT_EQ(text.find(part), std::string::npos) << text;
  const Table titled{"<script>\x1b[2J [a](b)", {"x"}, {}};
  EXPECT_EQ(tables_markdown({&titled, 1}).substr(0, 43), "### &lt;script&gt;\\\\x1b\\[2J \\[a\\](b)\n\n| x |");
}

TEST(LadderRows, InvalidRowsAreRejectedWithTheirLine) {
  const test::Scratch scratch;
  const std::string path = (scratch.path() / "rows.jsonl").string();
  const std::string good = refused("shared", kSmall).dump();
  for (const std::string bad : {R"({"implementation": "flash2", "status": "ok"})", "{]", "3",
                                R"({"kind": "other", "case": {"name": "", "batch": 1, "rows": 1, "dim": 1}})"}) {
    std::ofstream(path) << good << "\n" << bad << "\n";
    try {
      read_ladder_rows(path);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      const std::string says = bad == "{]" ? "rows.jsonl, line 2: not JSON" : "line 2: not a row of strobe ladder: ";
      EXPECT_NE(std::string_view(error.what()).find(says), std::string_view::npos) << error.what();
    }
  }
}

TEST(LadderTables, SeveralCasesGetATableOfSpeedUps) {
  const std::vector<Json> rows = {rung("sequential", kCase28, 80), rung("shared", kCase28, 4),
                                  rung("sequential", kSmall, 1), refused("shared", kSmall)};
  const std::vector<Table> tables = ladder_tables(rows);
  ASSERT_EQ(tables.size(), 3u);
  EXPECT_EQ(tables[2].cells[1], (std::vector<std::string>{"shared", "20.0", "-"}));
}

TEST(LadderTables, ShowAblationAndTiles) {
  const std::string split = R"("split": {"kernel": 0.5}, "status": "ok", "max_error": 1e-6)";
  const std::vector<Json> rows = {
      Json::parse(fmt::format(R"({{"kind": "ablation", "without": "", {}, "seconds": 1, {}}})", kCase28, split)),
      Json::parse(fmt::format(R"({{"kind": "ablation", "without": "padded", {}, "seconds": 3, {}}})", kCase28, split)),
      Json::parse(fmt::format(
          R"({{"kind": "tiles", "br": 64, "bc": 32, "shared_bytes": 100, "registers": 40, "blocks": 2,
               "occupancy": 0.5, {}, "seconds": 1, {}}})",
          kCase28, split)),
      Json::parse(fmt::format(
          R"({{"kind": "tiles", "br": 128, "bc": 128, "shared_bytes": 900, "registers": 40, "blocks": 0,
               "occupancy": 0, {}, "status": "refused", "reason": "too large"}})",
          kCase28))};
  const std::vector<Table> tables = ladder_tables(rows);
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0].cells[1][3], "3.00");  // total time / total time with all optimisations
  EXPECT_EQ(tables[1].cells[0][0], "64 x 32");
  EXPECT_EQ(tables[1].cells[0][4], "50 %");
  EXPECT_EQ(tables[1].cells[1][4], "-");
  EXPECT_EQ(tables[1].cells[1][8], "refused: too large");
}

TEST(LadderTables, MissingCountersAreNotZero) {
  const std::vector<Json> rows = {
      Json::parse(fmt::format(R"({{"kind": "profile", "rung": "shared", {}, "status": "not available",
                                   "reason": "no ncu"}})",
                              kCase28)),
      Json::parse(fmt::format(R"({{"kind": "profile", "rung": "padded", {}, "status": "ok", "launches": 1,
                                   "counters": {{"achieved_occupancy": 50, "bank_conflicts": null}}}})",
                              kCase28))};
  const std::vector<Table> tables = ladder_tables(rows);
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].cells[0][1], "not available");
  EXPECT_EQ(tables[0].cells[0].back(), "not available: no ncu");
  EXPECT_EQ(tables[0].cells[1][1], "50.0");
  EXPECT_EQ(tables[0].cells[1][7], "not available");
}

TEST(LadderFigures, PublishedTimesAreShownForCase28Only) {
  const std::vector<Json> rows = {rung("sequential", kCase28, 80), rung("shared", kCase28, 4),
                                  rung("sequential", kSmall, 1)};
  const std::vector<Figure> figures = ladder_figures(rows);
  ASSERT_EQ(figures.size(), 2u);
  ASSERT_EQ(figures[0].series.size(), 2u);
  EXPECT_EQ(figures[0].y.words, (std::vector<std::string>{"shared", "sequential"}));  // the first rung is on top
  EXPECT_DOUBLE_EQ(figures[0].series[0].points[1].x, 80);
  EXPECT_DOUBLE_EQ(figures[0].series[1].points[0].x, 6.277);
  EXPECT_DOUBLE_EQ(figures[0].series[1].points[1].x, 142.9);
  EXPECT_EQ(figures[1].series.size(), 1u);
  EXPECT_NE(figure_svg(figures[0]).find("GTX 1080"), std::string::npos);
}

// The chart of a single rung must have at least two ticks, for any time.
TEST(LadderFigures, OneRungHasTicks) {
  for (const double seconds : {0.0103, 0.03, 0.45, 1.4, 3.3, 7.0}) {
    const std::vector<Figure> figures = ladder_figures({{rung("sequential", kSmall, seconds)}});
    const std::vector<PlotScale::Tick> ticks = PlotScale(figures[0].x, {seconds}, 0, 100).ticks();
    ASSERT_GE(ticks.size(), 2u) << seconds;
    for (const PlotScale::Tick& tick : ticks) EXPECT_TRUE(tick.at >= 0 && tick.at <= 100) << seconds;
  }
}

TEST(LadderFigures, CountersOfSeveralCasesArePlottedAgainstSize) {
  std::vector<Json> rows;
  for (const char* size : {kCase28, kSmall}) {
    rows.push_back(Json::parse(fmt::format(
        R"({{"kind": "profile", "rung": "pinned", {}, "status": "ok", "launches": 1, "counters": {{"gflops": 7}}}})",
        size)));
  }
  const std::vector<Figure> figures = ladder_figures(rows);
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_EQ(figures[0].id, "counter-gflops");
  ASSERT_EQ(figures[0].series[0].points.size(), 2u);
  EXPECT_LT(figures[0].series[0].points[0].x, figures[0].series[0].points[1].x);
  rows.pop_back();
  EXPECT_TRUE(ladder_figures(rows).empty());  // the chart needs two cases
}

TEST(PublishedTimes, AreTenAndParsedStrictly) {
  EXPECT_EQ(published_times().size(), 10u);
  EXPECT_EQ(read_published("# words\nshared,1.5\n").front().seconds, 1.5);
  for (const char* bad : {"shared", "shared,", "shared,x", "shared,-1", "shared,1 s"}) {
    EXPECT_THROW(read_published(bad), Error) << bad;
  }
}

// Replays the seeds of the fuzz harness.
TEST(LadderRowsFuzz, OnlyValidSeedsAreAccepted) {
  const std::vector<std::string> valid{"control_name", "counters", "heading", "rungs", "split_date"};
  EXPECT_EQ(test::accepted_seeds("ladder_rows", test::fuzz_ladder_rows), valid);
}

TEST(LadderRowsFuzz, MutationsAreRejectedOrValid) {
  EXPECT_GT(test::accepted_json_mutations("ladder_rows", 150, test::fuzz_ladder_rows), 10);
}

}  // namespace
}  // namespace strobe::report
