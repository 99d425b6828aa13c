// The files of a report in a folder, replaced as a set.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace strobe::cli {

struct ReportFiles {
  std::string page, markdown, csv;
  std::vector<std::pair<std::string, std::string>> charts;  // name without a folder, contents
};

// Throws Error(invalid_argument) if a file that a report would replace is there and not from a report.
void check_report_page(const std::filesystem::path& page);
void check_report_folder(const std::filesystem::path& folder);

// Writes report.html, report.md, cells.csv and charts/. All are on the disk before the first old file is replaced; the
// page is replaced last. Then removes the charts of an earlier report that this one lacks: only those that its list,
// .strobe-report.json, names and that were not changed since. Throws Error if a file cannot be written.
void write_report(const std::filesystem::path& folder, const ReportFiles& files);

}  // namespace strobe::cli
