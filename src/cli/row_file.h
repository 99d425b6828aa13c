// A file of rows, each on the disk when it is known. `strobe ladder` and `strobe comm` write one.
#pragma once

#include <string>
#include <string_view>

namespace strobe::cli {

class RowFile {
 public:
  enum class Begin { anew, at_the_end };
  // Throws Error(invalid_argument) where a file cannot be written there. Nothing is made, and what is there stays,
  // until the first row, or, at the end, for good: however a process ends before it, it leaves no empty file.
  RowFile(std::string path, const std::string& asked_by, Begin begin = Begin::anew);
  ~RowFile();
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;

  void add(std::string_view row);  // without its end of line; throws Error(runtime) where the disk refuses

 private:
  std::string path_;
  Begin begin_;
  int descriptor_ = -1;  // open from the first row on
};

}  // namespace strobe::cli
