// Problems and answers of the judged cases as they were before any program ran.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace strobe::cli {

// Notices a file that was written, replaced, linked or removed: inode, size and times of each are compared.
class CaseFilesWatch {
 public:
  explicit CaseFilesWatch(const std::vector<std::string>& paths);

  // The first file that changed since the last call, or since the construction; empty: none did.
  std::string newly_changed();
  // Whether the file is as it was at the construction.
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
