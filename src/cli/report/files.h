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

// Throws Error(invalid_argument) if the report would replace a file that no report wrote.
void check_report_page(const std::filesystem::path& page);
void check_report_folder(const std::filesystem::path& folder);

// Writes report.html, report.md, cells.csv and charts/. All are on disk before the first old file is replaced; the page
// is replaced last. Then removes charts of an earlier report that this one lacks, if .strobe-report.json lists them and
// they were not changed since. Throws Error if a file cannot be written.
void write_report(const std::filesystem::path& folder, const ReportFiles& files);

}  // namespace strobe::cli
