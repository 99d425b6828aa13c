// The result file of a sweep: JSON lines, one per row, each on disk before the next cell begins. A process that is
// killed leaves whole lines and at most one torn line at the end, which the next sweep cuts off.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/descriptor.h"
#include "core/json.h"

namespace strobe::bench {

// Checks a row that is already in the file. Throws Error(invalid_argument) if the row does not belong there.
using AcceptRow = std::function<void(const Json& row, int line)>;

// First characters of every row (row_json). A file without a newline that begins otherwise is not a sweep's file.
inline constexpr std::string_view kRowBegin = "{\"forward\":";

// Passes every whole line to `accept`. Returns the size of the whole lines in bytes; a torn line may follow them.
// Throws Error(invalid_argument), prefixed with `shown`, if a line is not JSON (with its number) or if a text without
// lines is not the beginning of a row.
std::size_t parse_rows(std::string_view text, const std::string& shown, const AcceptRow& accept);

// The same for a file, which is opened for reading only. A file that does not exist has no rows. Throws
// Error(invalid_argument) if it is not a regular file.
void read_rows(const std::string& path, const AcceptRow& accept);

class ResultFile {
 public:
  // Creates or continues the file and locks it for this process. Cuts off a torn last line after `accept` has seen
  // every row, and changes nothing before. Throws Error(invalid_argument) as read_rows does, or if the file cannot be
  // written, is a symbolic link, or is locked by another process.
  ResultFile(std::string path, const AcceptRow& accept);

  std::int64_t torn_bytes() const { return torn_; }  // that were cut off

  // Removes the rows for which `is_dropped` holds. If the process is killed meanwhile, the file is the old or the new
  // one.
  void drop(const std::function<bool(const Json& row)>& is_dropped);

  // Writes and syncs a line. Throws Error(runtime) if that fails; the file then ends with the line before.
  void append(const Json& row);

 private:
  void open_locked();

  std::string path_;
  Descriptor file_;
  std::int64_t size_ = 0;
  std::int64_t torn_ = 0;
};

}  // namespace strobe::bench
