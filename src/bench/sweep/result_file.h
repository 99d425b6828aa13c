// The result file of a sweep: JSON lines, one per row, each synced before the next cell begins. A killed process leaves
// complete lines and at most one torn line at the end, which the next sweep removes.
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

// First characters of every row (row_json). A file without a newline that begins otherwise is not a sweep's file.
inline constexpr std::string_view kRowBegin = "{\"forward\":";

// Passes every complete line to `accept`. Returns the size of the complete lines in bytes; a torn line may follow.
// Throws Error(invalid_argument), prefixed with `shown`, if a line is not JSON (with its number) or if text without
// lines is not the beginning of a row.
std::size_t parse_rows(std::string_view text, const std::string& shown, const AcceptRow& accept);

// The same for a file, opened read-only. A missing file has no rows. Throws Error(invalid_argument) if it is not a
// regular file.
void read_rows(const std::string& path, const AcceptRow& accept);

class ResultFile {
 public:
  // Creates or continues the file and locks it for this process. Removes a torn last line after `accept` has seen every
  // row; changes nothing before. Throws Error(invalid_argument) as read_rows does, or if the file is not writable, is a
  // symbolic link, or is locked by another process.
  ResultFile(std::string path, const AcceptRow& accept);

  std::int64_t torn_bytes() const { return torn_; }  // size of the removed torn line

  // Removes the rows for which `is_dropped` returns true. Atomic: a killed process leaves the old or the new file.
  void drop(const std::function<bool(const Json& row)>& is_dropped);

  // Writes and syncs a line. Throws Error(runtime) on failure; the file then ends with the previous line.
  void append(const Json& row);

 private:
  void open_locked();

  std::string path_;
  Descriptor file_;
  std::int64_t size_ = 0;
  std::int64_t torn_ = 0;
};

// One JSON file per cell, with the names of the source reports' script, so its plotting code finds them.

// "result_bs16_sl512_nh16_ed1024_Flash2_causal.json"; "..._causal_causal.json" with a causal mask.
std::string source_file_name(const Json& config, const std::string& implementation);

class JsonFolder {
 public:
  // Throws Error(invalid_argument) if the folder does not exist and cannot be created, if it is not writable, or if two
  // cells would have the same file name, which omits type, device and others.
  JsonFolder(std::string path, const std::vector<Problem>& problems);

  void create() const;  // does nothing if it exists

  // Replaces the file of a cell atomically. Throws Error(invalid_argument) if its name is a symbolic link.
  void write(const Json& row) const;
  void write_if_missing(const Json& row) const;

 private:
  std::string path_of(const Json& row) const;

  std::string path_;
};

}  // namespace strobe::bench
