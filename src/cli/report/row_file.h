// Writes output files: rows that are synced one by one, and documents (Markdown and charts) next to them. Checks the
// files that they would replace. Used by `strobe ladder`, `strobe comm`, `strobe plan` and `strobe report`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/descriptor.h"
#include "core/file_set.h"
#include "report/figure.h"
#include "results/table.h"

namespace strobe::cli {

// A file of rows, each synced as soon as it is written.
class RowFile {
 public:
  enum class Begin { replace, append };
  // For --output. Throws Error(invalid_argument) if the file cannot be written, the path is a symbolic link, or strobe
  // did not write the existing file or a document next to it. The path may be a device such as /dev/stdout. The first
  // measured row creates the file, so that an earlier exit leaves no empty file. Begin::replace then replaces an
  // earlier file and removes the documents of this title, which show older rows. Begin::append keeps the earlier rows.
  RowFile(std::string path, std::string title, Begin begin = Begin::replace);

  // `row` must not end in a newline. Both throw Error(runtime) if the write fails.
  void add(std::string_view row);
  void add_refused(std::string_view row);  // written together with the first measured row
  int rows() const { return rows_; }       // rows that this object has written

 private:
  void write(std::string_view lines);

  std::string path_, title_;
  Begin begin_;
  bool is_device_ = false;
  Descriptor file_;      // open after the first row
  std::string waiting_;  // refused rows, each with its newline
  int waiting_rows_ = 0, rows_ = 0;
};

// Texts for set_signal_message().
inline constexpr const char* kEndedWithoutRows = "ended by a signal; nothing was measured, no file was changed";
std::string ended_with_rows(const std::string& file);

// A file whose name the program chose. A later run may replace such a file, and may remove it if it is unchanged.
// Each report and each document contains a list of these files.
struct WrittenFile {
  std::string name;         // without folder
  std::uint32_t crc32 = 0;  // CRC of the contents
};

WrittenFile written_file(std::string name, std::string_view contents);

// Text near the beginning of every chart, by which a later run recognizes the file.
inline constexpr const char* kChartMark = "font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\"";

// Throws Error(invalid_argument) if `path` is a regular file that strobe did not write: it is not empty and lacks
// `mark` in its first 1024 bytes. An empty file is accepted, because the user may have created it for the output.
// `writer`, such as "a report of strobe", is part of the error.
void check_replaced(const std::string& path, std::string_view mark, std::string_view writer);

// Does the same for a name that the program chose; throws also for links, FIFOs and devices.
void check_chosen(const std::string& path, std::string_view mark, std::string_view writer);

// Calls check_chosen() if `path` is the default of its flag.
void check_default(const std::string& path, std::string_view default_name, std::string_view mark);

[[noreturn]] void refuse_to_replace(const std::string& path, std::string_view writer);

// Removes each regular file of `earlier` from `folder` unless it was changed or is in `kept`. Throws Error(runtime) if
// a file cannot be removed.
void remove_superseded(const std::string& folder, std::span<const WrittenFile> earlier,
                       std::span<const WrittenFile> kept);

// A chart next to a file of rows, written as SVG.
struct Chart {
  std::string suffix;  // "-all-reduce": FILE-all-reduce.svg
  report::Figure figure;
};

std::string document_next_to(const std::string& rows_file);  // "out/comm.md" for "out/comm.jsonl"

// Throws Error(invalid_argument) if a document exists that this program did not write. Call it before measuring.
void check_documents(const std::string& rows_file, const std::string& title);

// Removes the document of this title and the charts that it lists. Call it before the rows change. Keeps
// documents that this program did not write, and changed charts. Throws Error(runtime) if a file cannot be removed.
void remove_documents(const std::string& rows_file, const std::string& title);

// Writes charts and document together and returns their paths, the document's last. Removes charts that an earlier
// document of this title lists and this one does not. Throws Error(invalid_argument) if one of the files exists and
// this program did not write it, Error(runtime) if a write fails; the old files then stay.
std::vector<std::string> write_documents(const std::string& rows_file, const std::string& title,
                                         std::span<const Chart> charts, std::span<const Table> tables);

// The steps of write_documents(), for callers that write further files in the same set. Call the first two before
// FileSet::commit() and the third after it.
std::vector<WrittenFile> charts_of_document(const std::string& rows_file, const std::string& title);
std::vector<std::string> add_documents(FileSet& files, const std::string& rows_file, const std::string& title,
                                       std::span<const Chart> charts, std::span<const Table> tables);
void remove_other_charts(const std::string& rows_file, std::span<const WrittenFile> earlier,
                         std::span<const std::string> written);

}  // namespace strobe::cli
