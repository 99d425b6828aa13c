#include "cli/row_documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/atomic_file.h"
#include "core/fail.h"
#include "report/svg.h"

namespace strobe::cli {
namespace {

namespace fs = std::filesystem;

std::string stem_of(const std::string& rows_file) {
  const fs::path path = rows_file;
  return (path.parent_path() / path.stem()).string();
}

std::string head_of(const std::string& title) { return "# " + title + "\n\n"; }

// The document's text; empty where it is none of ours.
std::string text_of(const std::string& document, const std::string& title) {
  std::ifstream file(document, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  return text.starts_with(head_of(title)) ? text : "";
}

// Paths of the charts that a document with this text shows.
std::vector<std::string> charts_of(const std::string& document, const std::string& text) {
  std::vector<std::string> charts;
  const std::string begin = "](" + fs::path(document).stem().string(), end = ".svg)\n";
  for (std::size_t at = 0; (at = text.find(begin, at)) != std::string::npos; ++at) {
    const std::string line = text.substr(at + 2, text.find('\n', at) - at - 1);
    if (!line.ends_with(end) || line.find('/') != std::string::npos) continue;
    charts.push_back((fs::path(document).parent_path() / line.substr(0, line.size() - 2)).string());
  }
  return charts;
}

void remove_file(const std::string& name) {
  std::error_code error;
  fs::remove(name, error);
  if (error) fail(ErrorCode::runtime, "--output: {}: an earlier run's file stays: {}", name, error.message());
}

}  // namespace

std::string document_beside(const std::string& rows_file) { return stem_of(rows_file) + ".md"; }

void remove_documents(const std::string& rows_file, const std::string& title) {
  const std::string document = document_beside(rows_file), text = text_of(document, title);
  if (text.empty()) return;
  for (const std::string& chart : charts_of(document, text)) remove_file(chart);
  remove_file(document);
}

std::vector<std::string> write_documents(const std::string& rows_file, const std::string& title,
                                         std::span<const Chart> charts, std::span<const report::NamedTable> tables) {
  const std::string document = document_beside(rows_file);
  const std::vector<std::string> earlier = charts_of(document, text_of(document, title));
  std::vector<std::string> written;
  std::string markdown = head_of(title);
  for (const Chart& chart : charts) {
    const std::string name = stem_of(rows_file) + chart.suffix + ".svg";
    AtomicFile(name, "--output").commit(report::figure_svg(chart.figure));
    markdown +=
        fmt::format("![{}, {}]({})\n\n", chart.figure.title, chart.figure.view, fs::path(name).filename().string());
    written.push_back(name);
  }
  AtomicFile(document, "--output").commit(markdown + report::tables_markdown(tables));
  for (const std::string& name : earlier) {
    if (std::find(written.begin(), written.end(), name) == written.end()) remove_file(name);
  }
  written.push_back(document);
  return written;
}

}  // namespace strobe::cli
