// A file of rows, each synced as soon as it is written. `strobe ladder` and `strobe comm` write one.
#pragma once

#include <string>
#include <string_view>

#include "core/descriptor.h"

namespace strobe::cli {

class RowFile {
 public:
  enum class Begin { anew, at_the_end };
  // For --output. Throws Error(invalid_argument) if a file cannot be written there, the path is a symbolic link, or
  // strobe did not write the file or a document next to it.
  // Devices such as /dev/stdout are written to. The first measured row creates the file, so an earlier exit leaves no
  // empty file. With Begin::anew that row replaces an earlier file and removes the documents of this title next to it,
  // which show other rows. With Begin::at_the_end the earlier rows stay.
  RowFile(std::string path, std::string title, Begin begin = Begin::anew);

  // Both without the end of line; throw Error(runtime) where the disk refuses.
  void add(std::string_view row);
  void add_refused(std::string_view row);  // waits for the first that was measured
  int rows() const { return rows_; }       // that this one has written

 private:
  void write(std::string_view lines);

  std::string path_, title_;
  Begin begin_;
  bool is_device_ = false;
  Descriptor file_;      // open from the first row on
  std::string waiting_;  // refused rows, each with its end of line
  int waiting_rows_ = 0, rows_ = 0;
};

// What a signal that ends a run has left, for its last words.
inline constexpr const char* kEndedWithoutRows = "ended by a signal; nothing was measured, no file was changed";
std::string ended_with_rows(const std::string& file);

}  // namespace strobe::cli
