// Detects changes of the judged cases' problems and answers.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace strobe::cli {

// Detects a file that was written, replaced, linked or removed, by its inode, size and times.
class CaseFilesWatch {
 public:
  explicit CaseFilesWatch(const std::vector<std::string>& paths);

  // The first file that changed since the last call or since construction; empty if none did.
  std::string newly_changed();
  // True if the file has not changed since construction.
  bool is_original(const std::string& path) const;

 private:
  struct Stamp {
    dev_t device = 0;
    ino_t inode = 0;
    off_t bytes = 0;
    std::int64_t modified = 0, changed = 0;  // nanoseconds

    bool operator==(const Stamp&) const = default;
  };
  struct Watched {
    std::string path;
    Stamp first, latest;
  };
  static Stamp stamp_of(const std::string& path);

  std::vector<Watched> files_;
};

}  // namespace strobe::cli
