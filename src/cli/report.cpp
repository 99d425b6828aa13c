// `strobe report FILES...`: result files to one page, tables and pictures.
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>

#include "cli/commands.h"
#include "cli/options.h"
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
    "report.html (one file, opens offline), report.md, cells.csv and charts/*.svg, in place of an earlier report's;\n"
    "FILE.html gets the page alone. Files that are there and of no report are not replaced.\n\n"
    "  strobe report results.jsonl --output report\n\n";

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder)) {
    fail(ErrorCode::invalid_argument, "--output {}: not a folder, and none can be made: {}", folder.string(),
         error ? error.message() : "a file is there");
  }
}

void write_file(const std::filesystem::path& path, const std::string& contents) {
  AtomicFile file(path.string(), "--output");
  file.commit(contents);
}

// What the files of a report have near their beginning.
constexpr const char* kPageMark = "<title>Strobe report</title>";
constexpr const char* kMarkdownMark = "# Attention: ";
constexpr const char* kCsvMark = "implementation,machine,build,dtype,causal,status,";

bool has_mark(const std::filesystem::path& path, const char* mark) {
  std::ifstream file(path, std::ios::binary);
  std::string head(1024, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  return head.find(mark) != std::string::npos;
}

// A file of others would be lost to the report's; an empty one may be the place that somebody made for it.
void check_replaced(const std::filesystem::path& path, const char* mark) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error) || std::filesystem::file_size(path, error) == 0) return;
  if (has_mark(path, mark)) return;
  fail(ErrorCode::invalid_argument, "--output: {}: is there, and not of a report of strobe; valid: {}", path.string(),
       "another place, or remove it first");
}

// A chart that this report does not have would be taken for one of it. Nothing but SVG files goes.
void remove_other_charts(const std::filesystem::path& folder, const std::set<std::string>& written) {
  std::vector<std::filesystem::path> stale;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::filesystem::path& path = entry->path();
    const bool plain = std::filesystem::symlink_status(path, error).type() == std::filesystem::file_type::regular;
    if (plain && path.extension() == ".svg" && !written.contains(path.stem().string())) stale.push_back(path);
  }
  for (const std::filesystem::path& path : stale) std::filesystem::remove(path, error);
  if (error)
    fail(ErrorCode::runtime, "--output: {}: an earlier report's charts stay: {}", folder.string(), error.message());
}

// Charts as SVG: of each chart and filter setting, the view that shows most.
std::set<std::string> write_charts(const std::filesystem::path& folder, const std::vector<report::Figure>& figures) {
  make_folder(folder);
  std::set<std::string> written;
  for (const report::Figure& figure : figures) {
    const std::string name = report::file_name(figure);
    if (written.insert(name).second) write_file(folder / (name + ".svg"), report::figure_svg(figure));
  }
  return written;
}

// Rows of a file that is given twice would pass for two launches of each cell.
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
  table.add({.name = "output",
             .placeholder = "DIR|FILE.html",
             .help = "where to; default the folder report",
             .apply = [&](auto, auto value) { output = value; }});
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print(kReportIntroduction + table.help());
    return kFine;
  }
  if (files.empty()) fail(ErrorCode::invalid_argument, "report: no result file given: strobe report FILE...");
  if (output.empty()) fail(ErrorCode::invalid_argument, "--output \"\": valid: a folder, or a file that ends in .html");
  refuse_twice(files);
  const std::filesystem::path folder = output;
  if (output.ends_with(".html")) {
    check_replaced(output, kPageMark);
  } else {
    check_replaced(folder / "report.html", kPageMark);
    check_replaced(folder / "report.md", kMarkdownMark);
    check_replaced(folder / "cells.csv", kCsvMark);
  }
  std::vector<report::Result> results;
  for (const std::string& file : files) {
    const std::vector<report::Result> rows = report::read_results(file);
    results.insert(results.end(), rows.begin(), rows.end());
  }
  const std::vector<report::Cell> cells = report::cells_of(results);
  const std::vector<report::Figure> figures = report::make_figures(cells);
  const std::string page = report_html(cells, figures);
  if (output.ends_with(".html")) {
    write_file(output, page);
    print(fmt::format("{}, {}; written: {}\n", counted(cells.size(), "cell"), counted(results.size(), "row"), output));
    return kFine;
  }
  const report::CellTable all = report::cell_table(cells);
  make_folder(folder);
  const bool had_report = has_mark(folder / "report.html", kPageMark);  // charts beside another one are not touched
  write_file(folder / "report.html", page);
  write_file(folder / "report.md", report_markdown(all, cells));
  write_file(folder / "cells.csv", table_csv(all));
  const std::set<std::string> charts = write_charts(folder / "charts", figures);
  if (had_report) remove_other_charts(folder / "charts", charts);
  print(fmt::format("{}, {}; written: {}/report.html, report.md, cells.csv and {} as SVG\n",
                    counted(cells.size(), "cell"), counted(results.size(), "row"), output,
                    counted(charts.size(), "chart")));
  return kFine;
}

}  // namespace strobe::cli
