// Tests report/plans: tables and charts of the result rows of `strobe plan`.
#include "report/plans.h"

#include <gtest/gtest.h>

#include "core/units.h"

namespace strobe::test {
namespace {

Json row(int devices, const char* sharding, double gib, double step) {
  return Json::object({{"work", "a model"},
                       {"machine", "a machine"},
                       {"devices", devices},
                       {"sharding", sharding},
                       {"memory_bytes", Json::object({{"weights", gib * kGiB / 2},
                                                      {"gradients", gib * kGiB / 2},
                                                      {"optimizer", 0},
                                                      {"activations", 0},
                                                      {"other", 0},
                                                      {"total", gib * kGiB}})},
                       {"device_memory_bytes", 16 * kGiB},
                       {"time_s", Json::object({{"forward", 0.01},
                                                {"backward", 0.02},
                                                {"update", 0.001},
                                                {"forward_exchange", 0.002},
                                                {"backward_exchange", 0.003},
                                                {"exposed", step - 0.031},
                                                {"gather", 0.0},
                                                {"tensor", 0.0},
                                                {"bubble", 0.0},
                                                {"pipeline", 0.0},
                                                {"step", step}})},
                       {"computing_share", 0.031 / step},
                       {"tokens_per_s", 1000.0 * devices},
                       {"sent_bytes", Json::object({{"inside", 2e9}, {"between", 0.0}})},
                       {"calls", 12.0},
                       {"call_bytes", 25e6},
                       {"hides", devices == 8},
                       {"least_batch", devices}});
}

const std::vector<Json> kRows{row(8, "replicated", 20, 0.04), row(8, "weights", 10, 0.05),
                              row(64, "replicated", 20, 0.06), row(64, "weights", 2, 0.05)};

using Cells = std::vector<std::string>;

TEST(PlanTables, ShowTheFirstInDetailThenAllNumbersOfDevices) {
  const std::vector<Table> tables = report::plan_tables(kRows);
  ASSERT_EQ(tables.size(), 5u);
  EXPECT_EQ(tables[0].title, "Memory of one of 8 devices, GiB");
  EXPECT_EQ(tables[0].cells[0], (Cells{"weights", "10.0", "5.00", "fp32 and a low-precision copy"}));
  EXPECT_EQ(tables[0].cells[2], (Cells{"total", "20.0", "10.0", ""})) << "lines of zeros are left out";
  EXPECT_EQ(tables[0].cells[3], (Cells{"fits", "no", "yes", "of 16.0 GiB"}));
  EXPECT_EQ(tables[1].cells[3], (Cells{"exchange", "5.00", "5.00", "overlappable"}));
  EXPECT_EQ(tables[2].cells[0], (Cells{"8", "40.0 (78 %)", "50.0 (62 %)", "replicated"}));
  EXPECT_EQ(tables[2].cells[1], (Cells{"64", "60.0 (52 %)", "50.0 (62 %)", "weights"}));
  EXPECT_EQ(tables[3].cells[0], (Cells{"8", "8", "8", "all"}));
  EXPECT_EQ(tables[3].cells[1], (Cells{"64", "64", "64", "-"}));
  EXPECT_EQ(tables[4].cells[1], (Cells{"64", "20.0", "2.00", "weights"}));
  for (const Table& table : tables) {
    for (const Cells& cells : table.cells) EXPECT_EQ(cells.size(), table.columns.size()) << table.title;
  }
}

TEST(PlanTables, FitIsUnknownIfTheMemoryIsUnknown) {
  std::vector<Json> rows = kRows;
  for (Json& one : rows) one.set("device_memory_bytes", Json());
  const std::vector<Table> tables = report::plan_tables(rows);
  EXPECT_EQ(tables[0].cells.back()[0], "total");
  EXPECT_EQ(tables[4].cells[0].back(), "unknown");
  EXPECT_EQ(report::plan_figures(rows)[1].series.size(), 2u) << "no rule";
}

TEST(PlanTables, OneNumberOfDevicesHasOnlyDetails) {
  EXPECT_EQ(report::plan_tables({kRows.data(), 2}).size(), 2u);
  EXPECT_TRUE(report::plan_figures({kRows.data(), 2}).empty());
}

TEST(PlanFigures, AreTimeAndMemoryWithALinePerStrategy) {
  const std::vector<report::Figure> figures = report::plan_figures(kRows);
  ASSERT_EQ(figures.size(), 2u);
  for (const report::Figure& figure : figures) {
    ASSERT_EQ(figure.series.size(), 3u);  // two strategies and a horizontal line
    EXPECT_EQ(figure.series[1].name, "ZeRO-3 (weights)");
    EXPECT_EQ(figure.x.ticks, (std::vector<double>{8, 64}));
    EXPECT_EQ(figure.caption, "a machine");
  }
  EXPECT_DOUBLE_EQ(figures[0].series[0].points[1].y, 60);
  EXPECT_DOUBLE_EQ(figures[0].series[2].points[0].y, 30);
  EXPECT_DOUBLE_EQ(figures[1].series[1].points[1].y, 2);
  EXPECT_DOUBLE_EQ(figures[1].series[2].points[0].y, 16);
}

}  // namespace
}  // namespace strobe::test
