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

// Checks a row that the file has already; throws Error(invalid_argument) if it does not belong there.
using AcceptRow = std::function<void(const Json& row, int line)>;

// Every row begins so (row_json). A file without a newline that begins otherwise is not one of a sweep.
inline constexpr std::string_view kRowBegin = "{\"forward\":";

// Passes every whole line to `accept` and returns the bytes of the whole lines; a torn line may follow them. Throws
// Error(invalid_argument), `shown` first, with the number of a line that is not JSON, and if a text without lines is
// not the beginning of a row.
std::size_t parse_rows(std::string_view text, const std::string& shown, const AcceptRow& accept);

// The same for a file, which is only read. A file that does not exist has no rows. Throws Error(invalid_argument) if it
// is no regular file.
void read_rows(const std::string& path, const AcceptRow& accept);

class ResultFile {
 public:
  // Creates the file or continues it, with a lock for this process. Nothing is changed before `accept` has seen every
  // row; a torn last line is cut off then. Throws Error(invalid_argument) as read_rows, if the file cannot be written
  // or is a symbolic link, and if another process has locked it.
  ResultFile(std::string path, const AcceptRow& accept);

  std::int64_t torn_bytes() const { return torn_; }  // that were cut off

  // Removes the rows for which `is_dropped` holds. A process that is killed meanwhile leaves the old or the new file.
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
