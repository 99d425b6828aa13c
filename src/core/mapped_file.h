// A regular file mapped into memory, for problem files, token files, checkpoints and logs.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/descriptor.h"

namespace strobe {

class MappedFile {
 public:
  // Maps the file without reading it. Throws Error(invalid_argument) if the file cannot be opened or is not a regular
  // file, and Error(out_of_memory) if it cannot be mapped. `shown` precedes the reason. Follows symbolic links. Rejects
  // a FIFO without waiting for a writer.
  MappedFile(const std::string& path, const std::string& shown);
  MappedFile(Descriptor file, const std::string& shown);  // takes ownership of an open file
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // Page-aligned; null for an empty file. Reading raises SIGBUS if the file has become shorter (app/signals.h).
  const void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  std::string_view text() const { return {static_cast<const char*>(data_), bytes_}; }
  int descriptor() const { return file_.get(); }

 private:
  Descriptor file_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace strobe
