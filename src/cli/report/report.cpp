// `strobe report FILES...`: result files to one page, tables and pictures.
#include <filesystem>
#include <set>
#include <system_error>

#include "app/options.h"
#include "app/terminal.h"
#include "cli/report/files.h"
#include "cli/report/report.h"
#include "core/atomic_file.h"
#include "core/counted.h"
#include "core/fail.h"
#include "report/figure.h"
#include "report/html.h"
#include "report/svg.h"
#include "report/tables.h"

namespace strobe::cli {
namespace {

constexpr const char* kReportIntroduction =
    "usage: strobe report FILE... [--output DIR|FILE.html]\n\n"
    "Draws result files of bench and sweep, all together: shards of a sweep, CPU and GPU, two builds. A folder gets\n"
    "report.html (one file, opens offline), report.md, cells.csv and charts/*.svg. An earlier report is replaced as a\n"
    "whole; files that no report wrote are neither replaced nor removed. FILE.html gets only the page.\n\n"
    "  strobe report results.jsonl --output report\n\n";

// One SVG per chart and filter setting: of several views, the first, which shows most.
std::vector<std::pair<std::string, std::string>> charts_of(const std::vector<report::Figure>& figures) {
  std::set<std::string> names;
  std::vector<std::pair<std::string, std::string>> charts;
  for (const report::Figure& figure : figures) {
    const std::string name = report::file_name(figure) + ".svg";
    if (names.insert(name).second) charts.emplace_back(name, report::figure_svg(figure));
  }
  return charts;
}

// Refuses a file that is given twice: it would count as two launches of each cell.
void refuse_twice(const std::vector<std::string>& files) {
  std::error_code error;
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (!std::filesystem::equivalent(files[i], files[j], error)) continue;
      fail(ErrorCode::invalid_argument, "report: {} and {} are one file; its rows would count twice", files[j],
           files[i]);
    }
  }
}

}  // namespace

int run_report(Arguments arguments) {
  std::string output = "report";
  std::vector<std::string> files;
  OptionTable table;
  table.take_words([&](std::string_view word) { files.emplace_back(word); });
  table.add("output", "DIR|FILE.html", "where to; default the folder report",
            [&](auto, auto value) { output = value; });
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print(kReportIntroduction + table.help());
    return kFine;
  }
  if (files.empty()) fail(ErrorCode::invalid_argument, "report: no result file given: strobe report FILE...");
  if (output.empty()) fail(ErrorCode::invalid_argument, "--output \"\": valid: a folder, or a file that ends in .html");
  refuse_twice(files);
  const bool one_page = output.ends_with(".html");
  one_page ? check_report_page(output) : check_report_folder(output);
  std::vector<report::Result> results;
  for (const std::string& file : files) report::read_results(file, results);
  const std::size_t rows = results.size();
  const std::vector<report::Cell> cells = report::cells_of(std::move(results));
  const std::vector<report::Figure> figures = report::make_figures(cells);
  const std::string summary = fmt::format("{}, {}", counted(cells.size(), "cell"), counted(rows, "row"));
  std::string page = report_html(cells, figures);
  if (one_page) {
    AtomicFile(output, "--output").commit(page);
    print(fmt::format("{}; written: {}\n", summary, output));
    return kFine;
  }
  const report::CellTable all = report::cell_table(cells);
  const ReportFiles written{std::move(page), report_markdown(all, cells, figures), table_csv(all), charts_of(figures)};
  write_report(output, written);
  print(fmt::format("{}; written: {}/report.html, report.md, cells.csv and {} as SVG\n", summary, output,
                    counted(written.charts.size(), "chart")));
  return kFine;
}

}  // namespace strobe::cli
