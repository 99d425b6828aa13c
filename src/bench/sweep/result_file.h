// The result file of a sweep: JSON lines, one a row, each on disk before the next cell begins. A process that is killed
// leaves whole lines and at most one torn one at the end, which the next sweep cuts off.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/json.h"

namespace strobe::bench {

// Looks at a row that the file has already; throws Error(invalid_argument) where it does not belong there.
using AcceptRow = std::function<void(const Json& row, int line)>;

// Hands every whole line of the file to `accept`; a file that is not there has none. Returns the bytes of the whole
// lines. Throws Error(invalid_argument) with the number of a line that is not JSON, and where there is no plain file.
std::int64_t read_rows(const std::string& path, const AcceptRow& accept);

class ResultFile {
 public:
  // Creates the file or goes on with the one that is there, for this process alone. Nothing is changed before `accept`
  // has seen every row. Throws Error(invalid_argument) as read_rows, where the file cannot be written, and where
  // another process has it.
  ResultFile(std::string path, const AcceptRow& accept);
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  std::int64_t torn_bytes() const { return torn_; }  // that were cut off

  // Takes the rows out for which `is_dropped` holds; whoever kills the process finds the file before or after.
  void drop(const std::function<bool(const Json& row)>& is_dropped);

  // Writes and syncs a line. Throws Error(runtime) where the disk refuses; the file then ends with the line before.
  void append(const Json& row);

 private:
  void open_locked();

  std::string path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
  std::int64_t torn_ = 0;
};

}  // namespace strobe::bench
