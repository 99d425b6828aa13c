// Implements `strobe report FILES...`, which combines result files into one page with tables and charts.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <system_error>

#include "app/help.h"
#include "app/options.h"
#include "app/terminal.h"
#include "cli/report/row_file.h"
#include "cli/report/verdict_lines.h"
#include "cli/verbs.h"
#include "core/atomic_file.h"
#include "core/counted.h"
#include "core/fail.h"
#include "core/file_set.h"
#include "core/json.h"
#include "core/regular_file.h"
#include "report/collectives.h"
#include "report/figure.h"
#include "report/html.h"
#include "report/ladder.h"
#include "report/svg.h"
#include "report/tables.h"
#include "report/training_log.h"

namespace strobe::cli {
namespace {

constexpr const char* kReportIntroduction =
    "usage: strobe report FILE... [--output DIR|FILE.html]\n\n"
    "Combines result files of bench, sweep, lm bench, lm train, comm and ladder, such as shards of a sweep, CPU and "
    "GPU, or two builds. Folder DIR gets\n"
    "report.html (one file, opens offline), report.md, cells.csv and charts/*.svg. An earlier report is replaced as a\n"
    "whole; files that no report wrote are neither replaced nor removed. FILE.html gets only the page. steps.jsonl of "
    "lm train is drawn as loss, learning rate and tokens per second; rows of lm bench, comm and ladder have charts of "
    "their own. charts/ then also has the CSV of these.\n\n"
    "  strobe report results.jsonl --output report\n\n";

// Returns one SVG per chart and filter setting, with the first view of the chart.
std::vector<std::pair<std::string, std::string>> charts_of(const std::vector<report::Figure>& figures) {
  std::set<std::string> names;
  std::vector<std::pair<std::string, std::string>> charts;
  for (const report::Figure& figure : figures) {
    const std::string name = report::file_name(figure) + ".svg";
    if (names.insert(name).second) charts.emplace_back(name, report::figure_svg(figure));
  }
  return charts;
}

// Throws if a file is given twice: it would count as two launches of each cell.
void refuse_twice(const std::vector<std::string>& files) {
  std::error_code error;
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (!std::filesystem::equivalent(files[i], files[j], error)) continue;
      fail(ErrorCode::invalid_argument, "report: {} and {} are the same file; valid: each file once", files[j],
           files[i]);
    }
  }
}

namespace fs = std::filesystem;

// Text near the beginning of each file of a report, by which a later report recognizes the file.
constexpr const char* kPageMark = "<title>Strobe report</title>";
constexpr const char* kMarkdownMark = "# Attention: ";
constexpr const char* kCsvMark = "implementation,machine,build,dtype,causal,status,";
constexpr const char* kReportWriter = "a report of strobe";
constexpr const char* kListName = ".strobe-report.json";
constexpr const char* kListMark = "\"written_by\": \"strobe report\"";
constexpr std::uintmax_t kLongestList = 1 << 24;  // bytes

void check_inside(const fs::path& path, const char* mark) { check_chosen(path.string(), mark, kReportWriter); }

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder)) {
    fail(ErrorCode::invalid_argument, "--output {}: not a folder, and cannot be created: {}", folder.string(),
         error ? error.message() : "a file is there");
  }
}

// Returns the charts of the last report; empty if there is no list, or no valid one.
std::vector<WrittenFile> read_list(const fs::path& folder) {
  std::error_code error;
  const fs::path path = folder / kListName;
  if (fs::symlink_status(path, error).type() != fs::file_type::regular || fs::file_size(path, error) > kLongestList) {
    return {};
  }
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  std::vector<WrittenFile> charts;
  try {
    const Json list = Json::parse(text);
    for (const Json& chart : list.at("charts").as_array()) {
      charts.push_back({chart.at("name").as_string(), static_cast<std::uint32_t>(chart.at("crc32").as_integer())});
    }
  } catch (const Error&) {
    return {};
  }
  return charts;
}

// Returns the text by which an earlier file of the same name is recognized.
const char* table_mark(std::string_view name, std::string_view contents) {
  if (!name.ends_with(".csv")) return kChartMark;
  return contents.starts_with(report::kFigureTableMark) ? report::kFigureTableMark : report::kTrainingTableMark;
}

std::string list_text(std::span<const WrittenFile> charts, std::span<const WrittenFile> more = {}) {
  Json list = Json::array();
  for (const auto& part : {charts, more}) {
    for (const WrittenFile& chart : part) {
      list.push_back(Json::object({{"name", chart.name}, {"crc32", std::int64_t{chart.crc32}}}));
    }
  }
  return Json::object({{"written_by", "strobe report"}, {"charts", std::move(list)}}).dump(1) + "\n";
}

struct ReportFiles {
  std::string page, markdown, csv;
  std::vector<std::pair<std::string, std::string>> charts;  // file name without folder, and contents
};

// These two throw Error(invalid_argument) if the report would replace a file that no report wrote.
void check_report_page(const fs::path& page) { check_replaced(page.string(), kPageMark, kReportWriter); }

void check_report_folder(const fs::path& folder) {
  check_inside(folder / "report.html", kPageMark);
  check_inside(folder / "report.md", kMarkdownMark);
  check_inside(folder / "cells.csv", kCsvMark);
  check_inside(folder / kListName, kListMark);
  refuse_link((folder / "charts").string(), "--output " + (folder / "charts").string());
}

// Writes report.html, report.md, cells.csv and charts/. All are on disk before the first old file is replaced; the page
// is replaced last. Then removes charts that only an earlier report has, if .strobe-report.json lists them and they
// were not changed since. Throws Error if a file cannot be written.
void write_report(const fs::path& folder, const ReportFiles& files) {
  const fs::path charts = folder / "charts", list = folder / kListName;
  const std::vector<WrittenFile> earlier = read_list(folder);
  std::vector<WrittenFile> written;
  for (const auto& [name, contents] : files.charts) {
    check_inside(charts / name, table_mark(name, contents));
    written.push_back(written_file(name, contents));
  }
  make_folder(charts);
  FileSet set("--output");
  set.add(list.string(), list_text(written, earlier));  // first, so that every chart of a killed run is listed
  for (const auto& [name, contents] : files.charts) set.add((charts / name).string(), contents);
  set.add((folder / "cells.csv").string(), files.csv);
  set.add((folder / "report.md").string(), files.markdown);
  set.add((folder / "report.html").string(), files.page);
  set.commit();
  remove_superseded(charts.string(), earlier, written);
  FileSet last("--output");
  last.add(list.string(), list_text(written));
  last.commit();
}

// Throws if no cell has the implementation; accepts any case, and Pytorch for standard, like bench.
void check_baseline(std::string& baseline, std::span<const report::Cell> cells) {
  if (baseline.empty()) return;
  std::vector<std::string> names;
  const auto has = [&](std::string_view name) { return std::ranges::find(names, name) != names.end(); };
  for (const report::Cell& cell : cells) {
    if (!has(cell.implementation)) names.push_back(cell.implementation);
  }
  if (has("standard")) names.emplace_back("Pytorch");
  baseline = parse_word("--baseline", baseline, names);
  if (baseline == "Pytorch") baseline = "standard";
}

// Returns the charts of `comm` and `ladder`.
std::vector<report::Figure> other_figures(std::span<const Json> collectives, std::span<const Json> rungs) {
  std::vector<report::Figure> figures = report::collective_figures(collectives);
  if (!rungs.empty()) {
    report::ladder_tables(rungs);  // throws if a key is missing
    for (report::Figure& figure : report::ladder_figures(rungs)) figures.push_back(std::move(figure));
  }
  for (report::Figure& figure : figures) {
    if (figure.section.empty()) figure.section = figure.id.starts_with("ladder") ? "Ladder" : "Collectives";
  }
  return figures;
}

std::string next_step(const report::Standing& standing, const std::string& page) {
  if (standing.leader.empty()) return "open " + strobe::quoted(page);
  const char* const more = standing.leads.empty() ? "bench or sweep with --impl Flash2,Pytorch compares implementations"
                           : standing.is_clear()  ? "strobe compare OLD NEW finds what a change made slower"
                                                  : "the same sweep with --launches 5 narrows the intervals";
  return fmt::format("open {}; {}", strobe::quoted(page), more);
}

}  // namespace

int run_report(Arguments arguments) {
  std::string output = "report", baseline;
  std::vector<std::string> files;
  OptionTable table;
  table.take_words([&](std::string_view word) { files.emplace_back(word); });
  table.add("output", "DIR|FILE.html", "output folder or page; default the folder report",
            [&](auto, auto value) { output = value; });
  table.add("baseline", "NAME",
            "implementation that speedup and memory maps compare with; default: standard, if measured",
            [&](auto, auto value) { baseline = value; });
  table.check_with([&] {
    if (files.empty()) fail(ErrorCode::invalid_argument, "report: no result file given: strobe report FILE...");
    if (output.empty()) {
      fail(ErrorCode::invalid_argument, "--output \"\": valid: a folder, or a file that ends in .html");
    }
  });
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print_help(kReportIntroduction + table.help());
    return kFine;
  }
  refuse_twice(files);
  const bool one_page = output.ends_with(".html");
  one_page ? check_report_page(output) : check_report_folder(output);
  std::vector<report::Result> results;
  std::vector<report::TrainingLog> logs;
  std::vector<Json> collectives, rungs;
  const auto keep = [&](const Json& row) {
    const Json* kind = row.find("kind");
    if (!kind || !kind->is_string()) return;
    if (kind->as_string() == "collective") collectives.push_back(row);
    if (row.find("case")) rungs.push_back(row);
  };
  for (const std::string& file : files) {
    if (report::is_training_log(file)) {
      logs.push_back(report::read_training_log(file));
    } else {
      report::read_results(file, results, keep);
    }
  }
  const std::size_t rows = results.size();
  const std::vector<report::Cell> cells = report::cells_of(std::move(results));
  check_baseline(baseline, cells);
  std::vector<report::Figure> figures = report::make_figures(cells, baseline);
  const std::size_t own = figures.size();  // the figures after these get a table of their own
  for (report::Figure& figure : other_figures(collectives, rungs)) figures.push_back(std::move(figure));
  const std::size_t others = figures.size();
  for (report::Figure& figure : report::training_figures(logs)) figures.push_back(std::move(figure));
  std::string summary = fmt::format("{}, {}", counted(cells.size(), "cell"), counted(rows, "row"));
  if (cells.empty()) summary = counted(logs.size(), "training log");
  const report::Standing standing = standing_of(cells);
  const std::string verdict =
      verdict_lines(standing, next_step(standing, one_page ? output : output + "/report.html"), Line::prose);
  std::string page = report_html(cells, figures);
  if (one_page) {
    AtomicFile(output, "--output").commit(page);
    print(fitting_line(fmt::format("{}; written: {}", summary, output)) + verdict);
    return kFine;
  }
  const Table all = report::cell_table(cells);
  ReportFiles written{std::move(page), report_markdown(all, cells, figures), all.csv(), charts_of(figures)};
  const std::size_t pictures = written.charts.size();
  for (std::size_t i = 0; i < others; ++i) {
    if (i < own && !figures[i].id.starts_with("step-")) continue;  // cells.csv has the values
    written.charts.emplace_back(report::file_name(figures[i]) + ".csv", report::figure_csv(figures[i]));
  }
  for (auto& table : report::training_tables(logs)) written.charts.push_back(std::move(table));
  write_report(output, written);
  print(fitting_line(fmt::format("{}; written: {}/report.html, report.md, cells.csv and {} as SVG", summary, output,
                                 counted(pictures, "chart"))) +
        verdict);
  return kFine;
}

}  // namespace strobe::cli
