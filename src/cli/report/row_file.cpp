// Writes and replaces result files. Rows take seconds to measure, so each row is written and synced separately.
#include "cli/report/row_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "core/atomic_file.h"
#include "core/crc32.h"
#include "core/fail.h"
#include "core/printable.h"
#include "core/regular_file.h"
#include "core/write_all.h"
#include "report/svg.h"
#include "results/escape.h"

namespace strobe::cli {
namespace {

// Opens the file. Throws Error(runtime), because the path must have changed since the constructor checked it.
Descriptor open_rows(const std::string& path) {
  try {
    return open_regular(path, O_WRONLY | O_APPEND | O_CREAT, path);
  } catch (const Error& error) {
    fail(ErrorCode::runtime, "{}", error.what());
  }
}

namespace fs = std::filesystem;

std::string stem_of(const std::string& rows_file) {
  const fs::path path = rows_file;
  return (path.parent_path() / path.stem()).string();
}

constexpr const char* kRowWriter = "this command";
constexpr std::size_t kLongestStem = 220;  // bytes; leaves 35 for a chart's suffix and ".svg"

std::string head_of(const std::string& title) { return "# " + title + "\n\n"; }

// Returns the text of a document. Returns "" without reading the rest if the document does not begin with the title.
std::string text_of(const std::string& document, const std::string& title) {
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(document, error))) return "";
  std::ifstream file(document, std::ios::binary);
  std::string text = head_of(title);
  std::string head(text.size(), '\0');
  if (!file.read(head.data(), static_cast<std::streamsize>(head.size())) || head != text) return "";
  text.append(std::istreambuf_iterator<char>(file), {});
  return text;
}

// The last line of a document is an HTML comment that lists its charts, each as "SUFFIX.svg CRC32".
constexpr std::string_view kListBegin = "<!-- strobe charts:", kListEnd = " -->\n";

std::string list_line(const std::string& stem, std::span<const WrittenFile> charts) {
  std::string line(kListBegin);
  for (const WrittenFile& chart : charts)
    line += fmt::format(" {} {:08x};", chart.name.substr(stem.size()), chart.crc32);
  return line.append(kListEnd);
}

bool has_list(std::string_view text) { return text.ends_with(kListEnd) && text.rfind(kListBegin) != text.npos; }

// Returns the charts that a document with this text lists; none if an older version wrote it.
std::vector<WrittenFile> charts_in(const std::string& stem, std::string_view text) {
  std::vector<WrittenFile> charts;
  const std::size_t begin = text.rfind(kListBegin);
  if (!has_list(text)) return charts;
  std::istringstream words(std::string(text.substr(begin + kListBegin.size())));
  for (std::string suffix, crc; words >> suffix && suffix != "-->" && words >> crc;) {
    WrittenFile chart{.name = stem + suffix};
    std::from_chars(crc.data(), crc.data() + crc.size(), chart.crc32, 16);
    if (suffix.ends_with(".svg")) charts.push_back(std::move(chart));
  }
  return charts;
}

// Returns true if this program wrote the document. Documents of older versions link to a chart, but have no list.
bool is_written_here(const std::string& stem, const std::string& text) {
  return has_list(text) || text.find("](" + markdown_target(stem)) != std::string::npos ||
         text.find("](" + stem) != std::string::npos;
}

std::string folder_of_document(const std::string& document) { return fs::path(document).parent_path().string(); }
std::string stem_in_folder(const std::string& rows_file) { return fs::path(rows_file).stem().string(); }

namespace fs = std::filesystem;

bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

bool is_unchanged(const fs::path& path, std::uint32_t crc) {
  std::error_code error;
  if (fs::symlink_status(path, error).type() != fs::file_type::regular) return false;
  std::ifstream file(path, std::ios::binary);
  std::uint32_t found = 0;
  char block[1 << 16];
  while (file.read(block, sizeof block) || file.gcount() > 0) {
    found = crc32({block, static_cast<std::size_t>(file.gcount())}, found);
  }
  return !file.bad() && found == crc;
}

}  // namespace

RowFile::RowFile(std::string path, std::string title, Begin begin)
    : path_(std::move(path)), title_(std::move(title)), begin_(begin) {
  is_device_ = AtomicFile(path_, "--output").is_device();
  if (!is_device_) refuse_link(path_, "--output " + path_);
  check_replaced(path_, "{\"kind\":", "this command");
  check_documents(path_, title_);
}

void RowFile::add(std::string_view row) {
  write(waiting_ + std::string(row) + "\n");
  rows_ += std::exchange(waiting_rows_, 0) + 1;
  waiting_.clear();
}

void RowFile::add_refused(std::string_view row) {
  if (rows_ > 0) return add(row);
  waiting_ += std::string(row) + "\n";
  ++waiting_rows_;
}

void RowFile::write(std::string_view lines) {
  const auto check = [&](bool fine) {
    if (!fine) fail(ErrorCode::runtime, "{}: cannot be written: {}", path_, std::strerror(errno));
  };
  if (!file_) {
    file_ = is_device_ ? Descriptor(open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)) : open_rows(path_);
    check(static_cast<bool>(file_));
    if (begin_ == Begin::replace) {
      remove_documents(path_, title_);
      check(ftruncate(file_.get(), 0) == 0 || errno == EINVAL);  // EINVAL: a device
    }
  }
  errno = write_all(file_.get(), lines);
  check(errno == 0);
  check(fsync(file_.get()) == 0 || errno == EINVAL);
}

std::string ended_with_rows(const std::string& file) {
  return fmt::format("ended by a signal; rows measured so far are in {}", file);
}

std::string document_next_to(const std::string& rows_file) { return stem_of(rows_file) + ".md"; }

void check_documents(const std::string& rows_file, const std::string& title) {
  if (stem_in_folder(rows_file).size() > kLongestStem) {
    fail(ErrorCode::invalid_argument,
         "--output {}: too long for the names of its charts; valid: at most {} bytes before {}",
         printable_value(rows_file), kLongestStem, "the extension");
  }
  std::error_code error;
  const std::string document = document_next_to(rows_file);
  const fs::file_status status = fs::symlink_status(document, error);
  if (!fs::exists(status)) return;
  if (fs::is_regular_file(status) && fs::is_empty(document, error)) return;
  if (!is_written_here(stem_in_folder(rows_file), text_of(document, title))) refuse_to_replace(document, kRowWriter);
}

void remove_documents(const std::string& rows_file, const std::string& title) {
  const std::string document = document_next_to(rows_file), text = text_of(document, title);
  if (!has_list(text)) return;
  remove_superseded(folder_of_document(document), charts_in(stem_in_folder(rows_file), text), {});
  std::error_code error;
  fs::remove(document, error);
  if (error) fail(ErrorCode::runtime, "--output: {}: cannot be removed: {}", document, error.message());
}

std::vector<std::string> add_documents(FileSet& files, const std::string& rows_file, const std::string& title,
                                       std::span<const Chart> charts, std::span<const Table> tables) {
  check_documents(rows_file, title);
  const std::string stem = stem_in_folder(rows_file), document = document_next_to(rows_file);
  std::vector<std::string> paths;
  std::vector<WrittenFile> written;
  std::string markdown = head_of(title);
  for (const Chart& chart : charts) {
    const std::string name = stem + chart.suffix + ".svg", svg = report::figure_svg(chart.figure);
    paths.push_back(stem_of(rows_file) + chart.suffix + ".svg");
    check_chosen(paths.back(), kChartMark, kRowWriter);
    written.push_back(written_file(name, svg));
    files.add(paths.back(), svg);
    markdown += fmt::format("![{}, {}]({})\n\n", markdown_text(chart.figure.title), markdown_text(chart.figure.view),
                            markdown_target(name));
  }
  files.add(document, markdown + tables_markdown(tables) + "\n" + list_line(stem, written));
  paths.push_back(document);
  return paths;
}

void remove_other_charts(const std::string& rows_file, std::span<const WrittenFile> earlier,
                         std::span<const std::string> written) {
  std::vector<WrittenFile> kept;
  for (const std::string& path : written) kept.push_back({.name = fs::path(path).filename().string()});
  remove_superseded(folder_of_document(document_next_to(rows_file)), earlier, kept);
}

std::vector<WrittenFile> charts_of_document(const std::string& rows_file, const std::string& title) {
  return charts_in(stem_in_folder(rows_file), text_of(document_next_to(rows_file), title));
}

std::vector<std::string> write_documents(const std::string& rows_file, const std::string& title,
                                         std::span<const Chart> charts, std::span<const Table> tables) {
  const std::vector<WrittenFile> earlier = charts_of_document(rows_file, title);
  FileSet files("--output");
  std::vector<std::string> written = add_documents(files, rows_file, title, charts, tables);
  files.commit();
  remove_other_charts(rows_file, earlier, written);
  return written;
}

void refuse_to_replace(const std::string& path, std::string_view writer) {
  fail(ErrorCode::invalid_argument,
       "--output: {}: exists and was not written by {}; valid: another path, or remove the file first", path, writer);
}

void check_replaced(const std::string& path, std::string_view mark, std::string_view writer) {
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) == 0) return;
  std::ifstream file(path, std::ios::binary);
  std::string head(1024, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  if (head.find(mark) == std::string::npos) refuse_to_replace(path, writer);
}

void check_chosen(const std::string& path, std::string_view mark, std::string_view writer) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return;
  check_regular(status.st_mode, "--output " + path);
  check_replaced(path, mark, writer);
}

void check_default(const std::string& path, std::string_view default_name, std::string_view mark) {
  if (path == default_name) check_chosen(path, mark, "strobe");
}

WrittenFile written_file(std::string name, std::string_view contents) { return {std::move(name), crc32(contents)}; }

void remove_superseded(const std::string& folder, std::span<const WrittenFile> earlier,
                       std::span<const WrittenFile> kept) {
  for (const WrittenFile& one : earlier) {
    const auto same = [&](const WrittenFile& other) { return other.name == one.name; };
    if (!is_plain_name(one.name) || std::any_of(kept.begin(), kept.end(), same)) continue;
    const fs::path path = fs::path(folder.empty() ? "." : folder) / one.name;
    if (!is_unchanged(path, one.crc32)) continue;
    std::error_code error;
    fs::remove(path, error);
    if (error) {
      fail(ErrorCode::runtime, "--output: {}: a file of an earlier run cannot be removed: {}", path.string(),
           error.message());
    }
  }
}

}  // namespace strobe::cli
