// The result file of a sweep: one JSON line per row. append() syncs each line, so a killed process leaves complete
// lines and at most one incomplete (torn) line at the end, which the next sweep removes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/sweep/problem.h"
#include "core/descriptor.h"
#include "core/json.h"

namespace strobe::bench {

// Validates an existing row. Throws Error(invalid_argument) if the row does not belong to the sweep.
using AcceptRow = std::function<void(const Json& row, int line)>;

// First characters of every row that row_json() writes. A file that has no newline and does not begin with them is
// rejected.
inline constexpr std::string_view kRowBegin = "{\"forward\":";

// Parses every complete line and passes it to `accept`. Returns the size of the complete lines in bytes; a torn line
// may follow. Throws Error(invalid_argument) with a message that begins with `shown` if a line is not JSON, or if text
// without a newline is not the beginning of a row.
std::size_t parse_rows(std::string_view text, const std::string& shown, const AcceptRow& accept);

// As parse_rows(), for a file, which is opened read-only. A missing file counts as empty. Also throws
// Error(invalid_argument) if the path is not a regular file.
void read_rows(const std::string& path, const AcceptRow& accept);

class ResultFile {
 public:
  // Creates the file or opens an existing one, and locks it for this process. Passes every row to `accept`, then
  // removes a torn last line; an exception of `accept` leaves the file unchanged. Throws Error(invalid_argument) as
  // read_rows does, or if the file is not writable, is a symbolic link, or is locked by another process.
  ResultFile(std::string path, const AcceptRow& accept);

  std::int64_t torn_bytes() const { return torn_; }  // size of the removed torn line

  // Removes the rows for which `is_dropped` returns true. The file is replaced atomically.
  void drop(const std::function<bool(const Json& row)>& is_dropped);

  // Appends a line and syncs it. On failure removes the new line if possible and throws Error(runtime).
  void append(const Json& row);

 private:
  void open_locked();

  std::string path_;
  Descriptor file_;
  std::int64_t size_ = 0;
  std::int64_t torn_ = 0;
};

// "result_bs16_sl512_nh16_ed1024_Flash2_causal.json"; "..._causal_causal.json" with a causal mask.
std::string source_file_name(const Json& config, const std::string& implementation);

// A folder with one JSON file per cell. The plot script of the report that the benchmark reproduces can read the files,
// because they have the names that it expects.
class JsonFolder {
 public:
  // Throws Error(invalid_argument) if the folder is not writable, if it is missing and its parent is not writable, or
  // if two cells would have the same file name. Names omit dtype, device and other axes.
  JsonFolder(std::string path, const std::vector<SweepProblem>& problems);

  void create() const;  // does nothing if the folder exists

  // Writes the file of a cell atomically. Throws Error(invalid_argument) if the path is a symbolic link.
  void write(const Json& row) const;
  void write_if_missing(const Json& row) const;

 private:
  std::string path_of(const Json& row) const;

  std::string path_;
};

}  // namespace strobe::bench
