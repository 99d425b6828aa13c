// Tests report/figures, svg, tables and html: every chart of the report exists and has the values of the result files.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "report/assets.h"
#include "report/figure.h"
#include "report/html.h"
#include "report/rows.h"
#include "report/series_names.h"
#include "report/svg.h"
#include "report/tables.h"

namespace strobe::report {
namespace {

using test::row_text;

std::vector<Cell> small_cells() { return cells_of(read_results(STROBE_TEST_DATA "/results/small.jsonl")); }

const Figure& find(const std::vector<Figure>& figures, const std::string& id, const std::string& pass = "") {
  const auto found = std::find_if(figures.begin(), figures.end(), [&](const Figure& one) {
    return one.id == id && (pass.empty() || one.pass == pass);
  });
  EXPECT_NE(found, figures.end()) << id;
  return *found;
}

TEST(Figures, ThePageHasEveryChart) {
  const std::vector<Figure> figures = make_figures(small_cells());
  std::set<std::string> ids;
  for (const Figure& figure : figures) {
    ids.insert(figure.id);
    EXPECT_NE(figure.caption.find("Neoverse"), std::string::npos) << figure.id;
    EXPECT_NE(figure.caption.find("2026-"), std::string::npos) << figure.id;
    EXPECT_NE(figure.caption.find("per point"), std::string::npos) << figure.id;
    EXPECT_NE(figure.series.empty(), figure.fields.empty()) << figure.id;
  }
  for (const char* id :
       {"by-implementation", "causal", "speed-up", "memory-ratio", "status", "memory-predicted", "roofline"}) {
    EXPECT_TRUE(ids.contains(id)) << id;
  }
  for (const char* axis : {"seq_len", "batch_size", "num_heads", "emb_dim"}) {
    for (const char* quantity : {"time-", "rate-", "memory-"}) EXPECT_TRUE(ids.contains(quantity + std::string(axis)));
  }
}

TEST(Figures, ALineHasTheTimesOfItsCells) {
  std::string text;
  for (const int seqlen_q : {128, 512, 256}) {
    text += row_text({.seqlen_q = seqlen_q, .forward = {1e-6 * seqlen_q * seqlen_q}});
    text += row_text({.implementation = "standard", .seqlen_q = seqlen_q, .forward = {4e-6 * seqlen_q * seqlen_q}});
  }
  const std::vector<Figure> figures = make_figures(cells_of(parse_results(text, "f")));
  EXPECT_EQ(find(figures, "kept-seq_len").series.at(0).points.at(0).y, 1.5);  // MiB
  const Figure& time = find(figures, "time-seq_len");
  ASSERT_EQ(time.series.size(), 2u);
  EXPECT_EQ(time.series[0].name, "flash2 ~ S^2.0");
  ASSERT_EQ(time.series[0].points.size(), 3u);
  EXPECT_EQ(time.series[0].points[1].x, 256);
  EXPECT_NEAR(time.series[0].points[1].y, 65.536, 1e-9);  // ms
  EXPECT_EQ(time.view, "batch size 2, heads 4, embedding dimension 64");
  const Figure& speed_up = find(figures, "speed-up");
  ASSERT_EQ(speed_up.fields.size(), 3u);
  EXPECT_EQ(speed_up.view, "flash2 over standard");
  for (const Field& field : speed_up.fields) EXPECT_EQ(field.text, "4.00");
  const Figure& bars = find(figures, "by-implementation");
  EXPECT_NEAR(bars.series[1].points[0].y / bars.series[0].points[0].y, 4, 1e-9);
}

TEST(Figures, MeansUseCellsThatAllImplementationsCompleted) {
  const std::string text = row_text({.seqlen_q = 128}) + row_text({.seqlen_q = 256, .forward = {9}}) +
                           row_text({.implementation = "standard", .seqlen_q = 128}) +
                           row_text({.implementation = "standard", .seqlen_q = 256, .status = "oom"});
  const std::vector<Figure> figures = make_figures(cells_of(parse_results(text, "f")));
  const Figure& bars = find(figures, "by-implementation");
  EXPECT_EQ(bars.view, "geometric mean over the 1 cell that all completed");
  EXPECT_NEAR(bars.series[0].points[0].y, 10, 1e-9);
  bool oom = false;
  for (const Figure& figure : figures) {
    for (const Field& field : figure.fields) oom |= figure.id == "status" && field.text == "oom";
  }
  EXPECT_TRUE(oom);
}

TEST(Figures, TwoMachinesAreTwoLinesAndLaunchesAreOneCell) {
  std::string text;
  for (const int seqlen_q : {128, 256}) {
    for (const char* machine : {"one", "two"}) {
      for (const double seconds : {0.03, 0.01, 0.02})
        text += row_text({.seqlen_q = seqlen_q, .forward = {seconds}, .machine = machine});
    }
  }
  const std::vector<Cell> cells = cells_of(parse_results(text, "f"));
  ASSERT_EQ(cells.size(), 4u);
  EXPECT_EQ(cells[0].launches.size(), 3u);
  EXPECT_EQ(cells[0].seconds(Pass::forward), 0.02);
  const std::vector<Figure> figures = make_figures(cells);
  const Figure& time = find(figures, "time-seq_len");
  ASSERT_EQ(time.series.size(), 2u);
  EXPECT_EQ(time.series[0].name, "flash2, one");
  EXPECT_NE(time.series[0].color, time.series[1].color);
}

TEST(Figures, TwoBuildsAreTwoLines) {
  std::string text;
  for (const int seqlen_q : {128, 256}) {
    for (const char* revision : {"aaaaaaaaaaaa", "bbbbbbbbbbbb"})
      text += row_text({.seqlen_q = seqlen_q, .revision = revision});
  }
  const std::vector<Figure> figures = make_figures(cells_of(parse_results(text, "f")));
  const Figure& time = find(figures, "time-seq_len");
  ASSERT_EQ(time.series.size(), 2u);
  EXPECT_EQ(time.series[1].name, "flash2, bbbbbbbbbb");
}

TEST(Figures, RatiosAreComputedWithinARun) {
  std::string text;
  for (const char* machine : {"one", "two"}) {
    for (const char* name : {"flash2", "standard", "torch-sdpa"}) {
      text += row_text({.implementation = name, .machine = machine});
    }
  }
  text += row_text({.machine = "three"});
  std::vector<std::string> views;
  for (const Figure& figure : make_figures(cells_of(parse_results(text, "f")))) {
    if (figure.id == "speed-up") views.push_back(figure.view);
  }
  EXPECT_EQ(views, (std::vector<std::string>{"flash2, one over standard, one", "torch-sdpa, one over standard, one",
                                             "flash2, two over standard, two", "torch-sdpa, two over standard, two",
                                             "flash2, three over flash2, one"}));
}

TEST(Figures, ABaselineCanBeChosen) {
  std::string text;
  for (const char* name : {"flash2", "standard", "torch-sdpa"}) text += row_text({.implementation = name});
  std::vector<std::string> views;
  for (const Figure& figure : make_figures(cells_of(parse_results(text, "f")), "torch-sdpa")) {
    if (figure.id == "speed-up") views.push_back(figure.view);
  }
  EXPECT_EQ(views, (std::vector<std::string>{"flash2 over torch-sdpa", "standard over torch-sdpa"}));
}

TEST(Figures, IntervalsAreWhiskers) {
  std::string text;
  for (const int seqlen_q : {128, 256}) text += row_text({.seqlen_q = seqlen_q, .forward = {0.01, 0.02, 0.04}});
  const std::vector<Figure> figures = make_figures(cells_of(parse_results(text, "f")));
  const Figure& time = find(figures, "time-seq_len");
  const Point& point = time.series.at(0).points.at(0);
  EXPECT_EQ(point.low, 10);
  EXPECT_EQ(point.high, 40);
  EXPECT_NE(point.label.find("20.0 ms (10.0 to 40.0)"), std::string::npos) << point.label;
  const Point& rate = find(figures, "rate-seq_len").series.at(0).points.at(0);
  EXPECT_NEAR(rate.y / rate.low, 2, 1e-9);
  EXPECT_NEAR(rate.high / rate.y, 2, 1e-9);
  EXPECT_NE(figure_svg(time).find("stroke-width=\"1.3\""), std::string::npos);
  EXPECT_EQ(figure_json(time).at("series").as_array()[0].at("points").as_array()[0].size(), 5u);
}

TEST(Figures, AnImplementationHasOneColourInEveryReport) {
  const auto color = [](const std::string& first, const std::string& second) {
    const std::vector<Cell> cells =
        cells_of(parse_results(row_text({.implementation = first}) + row_text({.implementation = second}), "f"));
    return SeriesNames(cells).color(first == "flash2" ? cells[0] : cells[1]);
  };
  EXPECT_EQ(color("flash2", "mine"), color("mine", "flash2"));
}

TEST(Figures, OneUnitOfRatePerPage) {
  std::string text;
  for (const int seqlen_q : {128, 256}) {
    text += row_text({.seqlen_q = seqlen_q});  // 0.1 TFLOP/s
    std::string fast = row_text({.seqlen_q = seqlen_q, .dtype = "bf16"});
    fast.replace(fast.find(":0.1}"), 5, ":12.0}");
    text += fast;
  }
  for (const Figure& figure : make_figures(cells_of(parse_results(text, "f")))) {
    EXPECT_EQ(figure.y.title.find("GFLOP/s"), std::string::npos) << figure.id << " " << figure.y.title;
  }
}

TEST(Tables, ConstantColumnsAreFolded) {
  const Table table{.columns = {left("implementation"), left("dtype"), left("note"), "ms"},
                    .cells = {{"flash2", "fp32", "", "1"}, {"flash2", "fp32", "", "2"}}};
  const FoldedTable folded = fold_constants(table);
  EXPECT_EQ(folded.constants, "The same in all rows: dtype fp32.");
  EXPECT_EQ(folded.table.columns, (std::vector<Heading>{left("implementation"), "ms"}));
  EXPECT_TRUE(folded.table.columns[0].is_left);
  EXPECT_EQ(folded.table.cells[1], (std::vector<std::string>{"flash2", "2"}));
  const Table one{.columns = table.columns, .cells = {table.cells[0]}};
  EXPECT_EQ(fold_constants(one).table.columns.size(), 4u);
}

TEST(Figures, TheStatusMapStartsWithTheMostFailures) {
  std::string text;
  for (const char* status : {"ok", "oom"}) {
    const int seqlen_q = std::string(status) == "ok" ? 128 : 256;
    text += row_text({.seqlen_q = seqlen_q});
    text += row_text({.implementation = "standard", .seqlen_q = seqlen_q, .status = status});
  }
  const std::vector<Figure> figures = make_figures(cells_of(parse_results(text, "f")));
  const Figure& status = find(figures, "status");
  EXPECT_EQ(status.view, "standard");
  ASSERT_EQ(status.fields.size(), 2u);
  EXPECT_EQ(status.fields[1].text, "oom");
  EXPECT_EQ(status.fields[1].column, 1);
}

TEST(Figures, FewOrUnusualCellsStillGiveCharts) {
  for (const std::string& text : {row_text({}), row_text({.status = "crashed"}), row_text({.seqlen_q = 0}),
                                  row_text({.forward = {0.01}}) + row_text({.seqlen_q = 256, .status = "timeout"})}) {
    const std::vector<Cell> cells = cells_of(parse_results(text, "f"));
    for (const Figure& figure : make_figures(cells)) EXPECT_NE(figure_svg(figure).find("</svg>"), std::string::npos);
    EXPECT_NE(report_markdown(cell_table(cells), cells, make_figures(cells)).find("flash2"), std::string::npos);
  }
}

TEST(Svg, IsWellFormedAndHasTheMarks) {
  for (const Figure& figure : make_figures(small_cells())) {
    const std::string svg = figure_svg(figure);
    std::size_t marks = 0;
    for (const Series& series : figure.series) marks += series.mark == Mark::rule ? 0 : series.points.size();
    std::size_t titles = 0;
    for (std::size_t at = 0; (at = svg.find("<title>", at)) != std::string::npos; ++at) ++titles;
    EXPECT_EQ(titles, marks + figure.fields.size()) << figure.id;
    EXPECT_NE(svg.find(">" + axis_title(figure.y) + "<"), std::string::npos) << figure.id;
    EXPECT_NE(svg.find(">" + axis_title(figure.x) + "<"), std::string::npos) << figure.id;
    EXPECT_EQ(svg.find("nan"), std::string::npos) << figure.id;
    EXPECT_EQ(svg.find("inf\""), std::string::npos) << figure.id;
  }
}

TEST(Svg, TheLegendNamesEverySeries) {
  std::string text;
  for (const int seqlen_q : {128, 256, 512}) {
    for (const char* name : {"flash2", "standard", "torch-naive", "torch-compile", "torch-sdpa", "torch-efficient"}) {
      text += row_text({.implementation = name, .seqlen_q = seqlen_q});
    }
  }
  const std::vector<Figure> figures = make_figures(cells_of(parse_results(text, "f")));
  const std::string svg = figure_svg(find(figures, "time-seq_len"));
  for (const char* name : {">flash2", ">torch-compile", ">torch-efficient"}) {
    EXPECT_NE(svg.find(name), std::string::npos) << name << svg;
  }
  EXPECT_NE(svg.find("y=\"86.0\""), std::string::npos) << "the second line: " << svg;
}

// Returns a result row with these values, in which every dimension is `size`, and heads at least 1.
std::string extreme_row(const std::string& name, std::int64_t size, double seconds, double rate, double megabytes,
                        double ceiling) {
  return fmt::format(
      R"j({{"forward":{{"time(s)":{1},"FLOPS(TFLOPs/s)":{2}}},"backward":{{"time(s)":{1},"FLOPS(TFLOPs/s)":{2}}},)j"
      R"j("peak_memory_usage(MB)":{3},"memory_before_backward(MB)":{3},"predicted_memory(MB)":{3},"status":"ok",)j"
      R"j("implementation":"{0}","config":{{"batch_size":{5},"seq_len":{5},"num_heads":{6},"emb_dim":{5},"causal":true,)j"
      R"j("dtype":"fp32"}},"statistics":{{"forward":{{"samples(s)":[{1},{1}]}}}},"environment":{{"ceilings":)j"
      R"j({{"copy(B/s)":{4},"matrix_product(FLOP/s)":{{"fp32":{4}}}}}}}}})j",
      name, seconds, rate, megabytes, ceiling, size, std::max<std::int64_t>(1, size));
}

// Smallest and largest valid values must give charts with finite coordinates.
TEST(Svg, RowsAtTheEndsOfEveryRangeHaveFiniteCoordinates) {
  std::string text;
  for (const std::int64_t size : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1} << 40}) {
    for (const double seconds : {1e-12, 1e9}) {
      for (const double rate : {0.0, 1e-24, 1e9}) {
        for (const double megabytes : {0.0, 1e-7, 1e12}) {
          for (const double ceiling : {0.0, 1e-12, 1e18}) {
            const std::string name = fmt::format("i-{}-{}-{}-{}", seconds, rate, megabytes, ceiling);
            text += extreme_row(name, size, seconds, rate, megabytes, ceiling) + "\n";
          }
        }
      }
    }
  }
  const std::vector<Cell> cells = cells_of(parse_results(text, "f"));
  const std::vector<Figure> figures = make_figures(cells);
  ASSERT_GT(figures.size(), 50u);
  for (const Figure& figure : figures) {
    const std::string svg = figure_svg(figure);
    for (const char* wrong : {"nan", "inf\"", "inf ", "-inf"}) {
      EXPECT_EQ(svg.find(wrong), std::string::npos) << figure.id << " " << figure.view;
    }
    EXPECT_LT(svg.size(), 1u << 20) << figure.id;
    EXPECT_EQ(figure_json(figure).dump().find("null"), std::string::npos) << figure.id;
  }
}

TEST(Tables, MarkdownAndCsvKeepTextOfFilesAsText) {
  const std::vector<Cell> cells = cells_of(
      parse_results(row_text({.implementation = "=HYPERLINK(1)", .machine = "![x](http://evil) @me <img>"}), "f"));
  const Table table = cell_table(cells);
  EXPECT_NE(table.csv().find("\n\"'=HYPERLINK(1)\","), std::string::npos) << table.csv();
  const std::string markdown = report_markdown(table, cells, make_figures(cells));
  for (const char* part : {"![x]", "@me", "<img", "http://"}) {
    EXPECT_EQ(markdown.find(part), std::string::npos) << part << "\n" << markdown;
  }
}

TEST(Html, TextOfFilesRemainsText) {
  if (kChartLibrary[0] == '\0') GTEST_SKIP() << "built without Chart.js";
  std::string text;
  for (const int seqlen_q : {128, 256})
    text += row_text({.implementation = "</script><img src=x>", .seqlen_q = seqlen_q, .dtype = "../x"});
  const std::vector<Cell> cells = cells_of(parse_results(text, "f"));
  const std::vector<Figure> figures = make_figures(cells);
  const std::string page = report_html(cells, figures);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find("http-equiv=\"refresh"), std::string::npos);
  for (const Figure& figure : figures) {
    EXPECT_EQ(figure_svg(figure).find("<img"), std::string::npos);
    EXPECT_EQ(file_name(figure).find_first_of("./"), std::string::npos) << file_name(figure);
  }
}

TEST(Tables, CsvHasOneRowPerCell) {
  const std::vector<Cell> cells = small_cells();
  const std::string csv = cell_table(cells).csv();
  EXPECT_EQ(static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n')), cells.size() + 1);
  const std::vector<Cell> odd = cells_of(parse_results(row_text({.machine = "a, b"}), "f"));
  EXPECT_NE(cell_table(odd).csv().find("flash2,\"a, b\",0123456789,fp32,off,ok,2,128,4,64,10.0,"), std::string::npos);
}

TEST(Tables, ABuildWithLocalChangesDiffersFromItsCommit) {
  const std::vector<Cell> cells = cells_of(parse_results(row_text({.revision = "0123456789ab+changes"}), "f"));
  EXPECT_NE(cell_table(cells).csv().find(",0123456789+,"), std::string::npos);
}

}  // namespace
}  // namespace strobe::report
