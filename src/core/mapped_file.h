// A plain file in memory as it is on disk: problem files, token files and checkpoints are read through here.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace strobe {

class MappedFile {
 public:
  // Nothing is read yet. Throws Error(invalid_argument), with `shown` before the reason, for what cannot be opened or
  // is no plain file; Error(out_of_memory) where it cannot be mapped. A pipe is refused without waiting for its other
  // end.
  MappedFile(const std::string& path, const std::string& shown);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // Aligned to a page; null for an empty file. Where the file becomes shorter, reading it raises SIGBUS (signals.h).
  const void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  std::string_view text() const { return {static_cast<const char*>(data_), bytes_}; }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace strobe
