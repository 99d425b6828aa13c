#include "cli/report/files.h"

#include <fstream>
#include <iterator>
#include <system_error>

#include "cli/report/row_file.h"
#include "core/fail.h"
#include "core/file_set.h"
#include "core/json.h"
#include "core/regular_file.h"

namespace strobe::cli {
namespace {

namespace fs = std::filesystem;

// Text near the beginning of each file of a report.
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

// Charts of the last report; none if there is no list, or one that this program did not write.
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

std::string list_text(std::span<const WrittenFile> charts, std::span<const WrittenFile> more = {}) {
  Json list = Json::array();
  for (const auto& part : {charts, more}) {
    for (const WrittenFile& chart : part) {
      list.push_back(Json::object({{"name", chart.name}, {"crc32", std::int64_t{chart.crc32}}}));
    }
  }
  return Json::object({{"written_by", "strobe report"}, {"charts", std::move(list)}}).dump(1) + "\n";
}

}  // namespace

void check_report_page(const fs::path& page) { check_replaced(page.string(), kPageMark, kReportWriter); }

void check_report_folder(const fs::path& folder) {
  check_inside(folder / "report.html", kPageMark);
  check_inside(folder / "report.md", kMarkdownMark);
  check_inside(folder / "cells.csv", kCsvMark);
  check_inside(folder / kListName, kListMark);
  refuse_link((folder / "charts").string(), "--output " + (folder / "charts").string());
}

void write_report(const fs::path& folder, const ReportFiles& files) {
  const fs::path charts = folder / "charts", list = folder / kListName;
  const std::vector<WrittenFile> earlier = read_list(folder);
  std::vector<WrittenFile> written;
  for (const auto& [name, contents] : files.charts) {
    check_inside(charts / name, kChartMark);
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

}  // namespace strobe::cli
