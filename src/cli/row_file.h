// A file of rows, each on the disk when it is known. `strobe ladder` and `strobe comm` write one.
#pragma once

#include <string>
#include <string_view>

namespace strobe::cli {

class RowFile {
 public:
  enum class Begin { anew, at_the_end };
  // For --output. Throws Error(invalid_argument) where a file cannot be written there. Nothing is made, and what is
  // there stays, until the first row that was measured, or, at the end, for good: however a process ends before it, it
  // leaves no empty file. Begun anew, that row takes the place of the earlier file and of the documents of this title
  // beside it, which show other rows.
  RowFile(std::string path, std::string title, Begin begin = Begin::anew);
  ~RowFile();
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;

  // Both without the end of line; throw Error(runtime) where the disk refuses.
  void add(std::string_view row);
  void add_refused(std::string_view row);  // waits for the first that was measured
  int rows() const { return rows_; }       // that this one has written

 private:
  void write(std::string_view lines);

  std::string path_, title_;
  Begin begin_;
  int descriptor_ = -1;  // open from the first row on
  std::string waiting_;  // refused rows, each with its end of line
  int waiting_rows_ = 0, rows_ = 0;
};

// What a signal that ends a run has left, for its last words.
inline constexpr const char* kEndedWithoutRows = "ended by a signal; nothing was measured, no file was changed";
std::string ended_with_rows(const std::string& file);

}  // namespace strobe::cli
