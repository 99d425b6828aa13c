// A file of rows, each on the disk when it is known. `strobe ladder` writes one.
#pragma once

#include <string>
#include <string_view>

namespace strobe::cli {

class RowFile {
 public:
  // Throws Error(invalid_argument) where the file cannot be written. What is in it stays until the first row; a file
  // that was not there before is removed again where there never is one.
  RowFile(std::string path, std::string_view asked_by);
  ~RowFile();
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;

  void add(std::string_view row);  // without its end of line; throws Error(runtime) where the disk refuses

 private:
  std::string path_;
  int descriptor_ = -1;
  bool was_there_ = false, has_rows_ = false;
};

}  // namespace strobe::cli
